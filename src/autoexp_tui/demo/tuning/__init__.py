"""The agents of the research example: no model, rules over what a prompt and the file
that it names say.

They are to show the loop, and what an agent has to go by. They know nothing else, and
import nothing of ours."""
