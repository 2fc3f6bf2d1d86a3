"""Serves one GGUF file with llama.cpp's own HTTP server, which the package xllamacpp has inside its library.

usage: chat.py MODEL.gguf ALIAS PORT THREADS CONTEXT     CONTEXT: tokens of a request and its reply
"""

import sys
import threading

import xllamacpp

path, alias = sys.argv[1:3]
port, threads, context = map(int, sys.argv[3:6])
params = xllamacpp.CommonParams()
params.model.path = path
params.model_alias = {alias}
params.hostnames = ["127.0.0.1"]
params.port = port
params.n_parallel = 1  # One slot has the whole context.
params.n_ctx = context
# A model of this size counts on and on inside the schema, or says the same again, unless that is made unlikely. As with
# `llama-server --frequency-penalty 0.3 --repeat-last-n 256 --dry-multiplier 0.3 --dry-allowed-length 6`. (--repeat-penalty is
# no way: it makes words of the question unlikely, too.)
params.sampling.seed = 7
params.sampling.penalty_freq = 0.3
params.sampling.penalty_last_n = 256
params.sampling.dry_multiplier = 0.3
params.sampling.dry_allowed_length = 6
params.cpuparams.n_threads = threads
params.cpuparams_batch.n_threads = threads
params.offline = True
params.ui = False
server = xllamacpp.Server(params)
print("llama.cpp listens on", server.listening_address, flush=True)
threading.Event().wait()
