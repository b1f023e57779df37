import cProfile, pstats, threading, time, json
def test_a(call, trainings):
    import logging, jax
    logging.basicConfig(level=logging.WARNING)
    jax.config.update("jax_log_compiles", True)
    records = []
    class H(logging.Handler):
        def emit(self, r):
            m = r.getMessage()
            if "Finished XLA" in m or "cache" in m.lower(): records.append(m[:150])
    for n in ("jax", "jax._src.dispatch", "jax._src.compiler", "jax._src.interpreters.pxla"):
        logging.getLogger(n).addHandler(H())
    t = time.perf_counter()
    r = call("resume", trainings.unfinished, "--json")
    print("TIME", time.perf_counter() - t, json.loads(r.out)["seconds"])
    print(len(records)); print("\n".join(records[-40:]))
