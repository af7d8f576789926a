-- read: what lies above a position, both streams in one order (STORE.md 4, 8).
-- ARGV 1-6 as everywhere; 7 limit, 8 "1" where the process itself has seen the position.

--@state
local s = whole(load())
local epoch, offset, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[7])

-- A client's claim is only judged: it must not make epochs. That the server is another one is no claim.
if ARGV[8] == '1' then settle(s, epoch, offset) else settle(s, '', 0) end

local complete = continues(s, epoch, offset) and offset >= s.floor
local from, snapshot = offset, false
if not complete then
  from = s.floor
  snapshot = redis.call('GET', KEYS[4])
end

local stored, deltas = {}, {}
if limit > 0 and from < s.top then
  stored = redis.call('XRANGE', KEYS[2], (from + 1) .. '-0', '+', 'COUNT', limit)
  deltas = redis.call('XRANGE', KEYS[3], (from + 1) .. '-0', '+', 'COUNT', limit)
end

-- The first `limit` of both together; whatever lies above the last one taken is for the next page. The top itself is
-- always stored, so a page that is not cut ends there.
local function place(entry)
  return tonumber(string.match(entry[1], '^%d+'))
end
local i, j, upto = 0, 0, from
while i + j < limit and (stored[i + 1] or deltas[j + 1]) do
  local a, b = stored[i + 1], deltas[j + 1]
  if a and (not b or place(a) < place(b)) then
    i, upto = i + 1, place(a)
  else
    j, upto = j + 1, place(b)
  end
end
for k = #stored, i + 1, -1 do stored[k] = nil end
for k = #deltas, j + 1, -1 do deltas[k] = nil end

local seq, hash = string.match(s.log, '^(%d+) (.*)$')
return {'ok', s.epoch, s.top, s.floor, complete and 1 or 0, snapshot, stored, deltas, upto,
        s.event_bytes + s.open_bytes, seq, hash}
