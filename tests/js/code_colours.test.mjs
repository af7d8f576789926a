import assert from 'node:assert/strict';
import { test } from 'node:test';

import { COLOURED, codeParts } from '../../static/chat/markdown/code_colours.js';

const drawn = (language, text) => codeParts(language, text).map(({ kind, start, end }) => `${kind}:${text.slice(start, end)}`);

for (const [language, text, parts] of [
  ['python', 'def f(x): # "no"\n  return """a\nb""" + rb\'c\' + 1_0.5e3', ['word:def', 'comment:# "no"', 'word:return', 'string:"""a\nb"""', "string:rb'c'", 'number:1_0.5e3']],
  ['ts', 'const a: string = `b ${c}` // d\n/* e\n*/ x2', ['word:const', 'word:string', 'string:`b ${c}`', 'comment:// d', 'comment:/* e\n*/']],
  ['JSON', '{"a": "b:", "c" : [1, true]}', ['key:"a"', 'string:"b:"', 'key:"c"', 'number:1', 'word:true']],
  ['bash', 'export A="x # y" # z\necho a#b', ['word:export', 'string:"x # y"', 'comment:# z']],
  ['sql', "SELECT a FROM b WHERE c = 'd''e' -- f", ['word:SELECT', 'word:FROM', 'word:WHERE', "string:'d''e'", 'comment:-- f']],
  ['html', '<a href="b">c &lt; "d"</a><!-- e -->', ['word:<a', 'key:href', 'string:"b"', 'word:>', 'string:"d"', 'word:</a', 'word:>', 'comment:<!-- e -->']],
  ['yaml', 'a: 1\nb-c: "d" # e', ['key:a', 'number:1', 'key:b-c', 'string:"d"', 'comment:# e']],
  ['rust', "fn a<'b>() { let c = 'd'; }", ['word:fn', 'word:let', "string:'d'"]],
  ['diff', '--- a\n+++ b\n@@ 1 @@\n-c\n+d\n e', ['comment:--- a', 'comment:+++ b', 'comment:@@ 1 @@', 'gone:-c', 'new:+d']],
  ['brainf', 'def', []],
  ['', 'def', []],
]) {
  test(`colours of ${language || 'no language'}: ${JSON.stringify(text.slice(0, 20))}`, () => assert.deepEqual(drawn(language, text), parts));
}

test('colours: parts are in order and never overlap, whatever the text', () => {
  let state = 1;
  const draw = (bound) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * bound);
  };
  const pieces = ['"', "'", '`', '#', '//', '/*', '*/', '\\', '\n', ' ', 'def', 'a', '1', '<', '>', '-', '+', '=', ':', '"""', '\u{1f600}'];
  for (let round = 0; round < 3000; round += 1) {
    const text = Array.from({ length: draw(30) }, () => pieces[draw(pieces.length)]).join('');
    for (const language of ['py', 'js', 'json', 'go', 'sh', 'sql', 'html', 'css', 'yaml', 'diff', 'ruby']) {
      let at = 0;
      for (const { start, end } of codeParts(language, text)) {
        assert.ok(start >= at && end >= start && end <= text.length, JSON.stringify([language, text]));
        at = end;
      }
    }
  }
});

test('colours: a text that is too long has none', () => assert.deepEqual(codeParts('py', 'def '.repeat(COLOURED)), []));
