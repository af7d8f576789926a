-- advance: appends what a lease holder writes most, deltas of open messages and events beside the log, where it goes on
-- as it was: on the same server, in the same epoch, into streams that are there (STORE.md 9). Answers '' and has done
-- nothing wherever that is not so: append is to judge then.
-- KEYS: state, events, open. ARGV: 1 epoch, server id, run and token, 2 the writer's offset, 3 its field, 4 append seq,
-- 5 PUBLISH or SPUBLISH, 6 max bytes, 7 what stands before the data in a push line; then for each event: '' or, of a
-- delta, the message between spaces; type; data.

local call = redis.call
local state, mark = KEYS[1], ARGV[4]
local kept = call('HMGET', state, 'c', 'd', 'open', 'people')
if kept[1] ~= ARGV[1] then return '' end
local top, events, opens, event_bytes, open_bytes, last_mark =
  string.match(kept[2], '^(%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
-- An append known already, or a position above the top.
if mark == last_mark or tonumber(ARGV[2]) > tonumber(top) then return '' end

local room = ARGV[6] - event_bytes - open_bytes
for i = 8, #ARGV, 3 do
  local message = ARGV[i]
  if message == '' then
    if events == '0' then return '' end
  elseif not string.find(kept[3], message, 1, true) then
    return ''
  end
  room = room - #ARGV[i + 2]
end
if room < 0 then return '' end

local offset = string.format('%d', top + 1)
local place = string.sub(ARGV[1], 1, 8) .. ' ' .. offset .. ' '
local types, lines = ARGV[9], nil
for i = 8, #ARGV, 3 do
  local data = ARGV[i + 2]
  if ARGV[i] == '' then
    call('XADD', KEYS[2], offset .. '-0', 'd', data)
    events, event_bytes = events + 1, event_bytes + #data
  else
    call('XADD', KEYS[3], offset .. '-0', 'd', data)
    opens, open_bytes = opens + 1, open_bytes + #data
  end
  if i + 2 == #ARGV and not lines then
    lines = ARGV[7] .. data .. ',"offset":' .. offset .. '}}}'
  else
    lines = lines or {}
    lines[#lines + 1] = ARGV[7] .. data .. ',"offset":' .. offset .. '}}}'
    if i + 2 < #ARGV then
      types = types .. ',' .. ARGV[i + 4]
      offset = string.format('%d', offset + 1)
    else
      lines = table.concat(lines, '\n')
    end
  end
end

place = place .. offset
call('HSET', state, ARGV[3], mark .. ' ' .. place,
  'd', offset .. ' ' .. events .. ' ' .. opens .. ' ' .. event_bytes .. ' ' .. open_bytes .. ' ' .. mark)
call(ARGV[5], state, place .. ' ' .. types .. '\n' .. lines)
return place .. ' ' .. kept[4]
