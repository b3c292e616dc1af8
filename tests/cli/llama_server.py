"""The llama-server of the xllamacpp wheel, for s_llama_server.sh: python3 llama_server.py -m MODEL --port PORT -c CONTEXT"""
import sys, time

import xllamacpp

given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
p = xllamacpp.CommonParams()
p.model.path = given["-m"]
p.port = int(given["--port"])
p.hostnames = ["127.0.0.1"]
p.n_ctx = int(given["-c"])
p.n_parallel = 1
p.cpuparams.n_threads = 2
p.warmup = False
server = xllamacpp.Server(p)
print(server.listening_address, flush=True)
while True:
    time.sleep(60)
