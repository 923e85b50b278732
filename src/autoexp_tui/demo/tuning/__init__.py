"""The agents of the research example: no model, rules over what the context says.

They are to show the loop, and what an agent has to go by. They know nothing but the
prompt and the files that it names, and import nothing of ours."""
