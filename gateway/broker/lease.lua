-- lease: moves the deadline of a run's lease, or declares a run lost whose deadline has passed (STORE.md 5, 8).
-- ARGV 1-6 as everywhere; 7 "renew" or "lost", 8 run, 9 token, 10 ms: the lease's length, or for how long the caller's
-- link has been steady; 11 the data of the `agent_lost` event.

--@state
local s = whole(load())
local run, token = ARGV[8], ARGV[9]
local epoch, offset = ARGV[2], tonumber(ARGV[3])
settle(s, epoch, offset)

if ARGV[7] == 'renew' then
  if deleted(s, epoch, run) then return {'deleted', s.epoch, s.top} end
  if not continues(s, epoch, offset) then return restore(s, run) end
  local place = ended(run)
  if place then return {'ended', place} end
  if s.run ~= run or s.token ~= token then return {'fenced', s.epoch, s.top, s.run} end
  s.length = tonumber(ARGV[10])
  s.deadline = now + s.length
  s.latest = math.max(s.latest, s.deadline)
  save(s)
  keep(s, {})
  return {'ok', s.epoch .. ' ' .. s.top, s.people}
end

if s.run ~= run then return {'no', 'holder'} end
sober(s)
if s.deadline > now then return {'alive', s.deadline} end
-- Whoever was cut off itself cannot tell the dead from those who were cut off with it.
local steady = tonumber(ARGV[10])
if steady < s.length then return {'alive', now + s.length - steady} end

local data = ARGV[11]
s.top = s.top + 1
redis.call('XADD', KEYS[2], s.top .. '-0', 'd', data)
local born = {[KEYS[2]] = s.events == 0 or nil}
s.events, s.event_bytes, s.run = s.events + 1, s.event_bytes + #data, ''
save(s)
local place = s.epoch .. ' ' .. s.top .. ' ' .. s.top
redis.call('HSET', KEYS[1], 'r:' .. run, 'end ' .. place, 'free', s.top)
keep(s, born)
redis.call(ARGV[5], KEYS[1], place .. ' agent_lost\n{"push":{"channel":"' .. string.match(KEYS[1], '{(.*)}')
  .. '","pub":{"data":' .. data .. ',"offset":' .. s.top .. '}}}')
return {'ok', place}
