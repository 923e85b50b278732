"""One file a command: builds adapters, engine and front end, and knows them all."""
