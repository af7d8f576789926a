-- delete: removes a history with all that belongs to it; what is left says only that it was deleted (PROTOCOL.md 11).
-- KEYS: the six, then the list of readers. ARGV 1-6 as everywhere; 7 what to delete, a space before and after each name:
-- a history is removed if it has, or went on from, one of these epochs, so a repeated call deletes nothing newer.
-- 8 "1" where it is deleted again on a server that may have lost the deletion: then also one that a run of these names
-- (/run) has written again from its memory, and where nothing is left the names are kept, so that none will.

local REMEMBERED = 256  -- names of deleted histories and of their runs

--@state
local again = ARGV[8] == '1'
local s = load()
if s.epoch == '' and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0 then
  redis.call('UNLINK', KEYS[6], KEYS[7])
  if not again then return {'none'} end
  s.gone = ARGV[7]
  begin(s)
  return {'ok', s.epoch, s.gone, 0}
end
s = whole(s)

local function asked(epoch)
  return string.find(ARGV[7], ' ' .. epoch .. ' ', 1, true)
end
local names, known = {}, {}
local function remember(name)
  if #names < REMEMBERED and not known[name] then
    names[#names + 1], known[name] = name, true
  end
end
remember(s.epoch)
local found = asked(s.epoch)
for name in string.gmatch(s.lineage, '([^:,]+):') do
  remember(name)
  found = found or asked(name)
end
if again and not found then
  for run in string.gmatch(ARGV[7], '/(%S+)') do
    found = found or redis.call('HEXISTS', KEYS[1], 'r:' .. run) == 1
  end
end
if not found then
  for name in string.gmatch(ARGV[7], '%S+') do
    if string.find(s.gone, ' ' .. name .. ' ', 1, true) then return {'ok', s.epoch, s.gone, 0} end
  end
  return {'other', s.epoch}
end

if s.run ~= '' then remember('/' .. s.run) end
for name in string.gmatch(ARGV[7], '%S+') do remember(name) end
for name in string.gmatch(s.gone, '%S+') do remember(name) end
-- Also those that have ended: one may still try its first append again, whose answer was lost.
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local run = string.match(field, '^r:(.*)$')
  if run then remember('/' .. run) end
end
-- Also where the server's memory is full: what frees some is let through, and what follows it in one script.
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
s = load()
s.gone = ' ' .. table.concat(names, ' ') .. ' '
begin(s)
redis.call(ARGV[5], KEYS[1], s.epoch .. ' 0 0 deleted\n')
redis.call(ARGV[5], KEYS[1] .. ':ctl', s.epoch .. ' 0')
return {'ok', s.epoch, s.gone, 1}
