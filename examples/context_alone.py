"""The context by itself, without a store: python examples/context_alone.py."""

import json

from gateway import Context, Message

before = Context.new(system_prompt="You are brief.").add_message(Message.user("What is 2 + 2?"))
after = before.add_message(Message.assistant("4"))
print(len(before), "message before,", len(after), "after: a change makes a new value")

compact = after.replace_message_range(0, 1, Message.system("The user asked for a sum; it was 4."))
print([message.text for message in compact.messages], "but the log still has", len(compact.log), "events")

restored = Context.deserialize(json.loads(json.dumps(compact.serialize())))
print("saved and restored:", restored.messages == compact.messages)
