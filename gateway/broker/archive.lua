-- archive: keeps logged events that the next trim removes for good (STORE.md 1, 4).
-- ARGV 1-6 as everywhere, 2 and 3 being the position of the fold that shadows them; then (seq, event)...
-- The field `bytes` holds the size of all: it counts for the history's bound (see `trim`).

--@state
local s = load()
if s.epoch == '' and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0 then return {'gone'} end
s = whole(s)
local epoch, offset = ARGV[2], tonumber(ARGV[3])
settle(s, epoch, offset)
-- Of another history they would stand in the way of this one's own.
if not continues(s, epoch, offset) or offset < s.floor then
  return {'stale', s.epoch, s.top, s.floor}
end

local born = redis.call('EXISTS', KEYS[5]) == 0 or nil
local added = 0
for i = 7, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[5], ARGV[i], ARGV[i + 1]) == 1 then added = added + #ARGV[i + 1] end
end
local total = redis.call('HINCRBY', KEYS[5], 'bytes', added)
keep(s, {[KEYS[5]] = born})
return {'ok', total}
