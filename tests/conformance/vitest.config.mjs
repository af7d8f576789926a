// The published suite of Durable Streams lies where vitest does not look by itself.

export default {
  test: {
    include: ["node_modules/@durable-streams/server-conformance-tests/dist/test-runner.js"],
    exclude: [],
    // A long poll in vain takes 20 seconds, more than vitest gives a test.
    testTimeout: 30_000,
    sequence: { concurrent: false },
  },
};
