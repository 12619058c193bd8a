"""NLL against rows and seconds for pools of several sizes."""
import numpy as np

import design
import live
import streams

prepare = streams.prepare


def grown(neighbours, run, more=""):
    """Test NLL above that of the density the rows are drawn from, with the pool's own rows as centres, and with many more; the
    number of Parzen directions; seconds since the program was started, for which all rows were waiting."""
    source = streams.Source(run)
    X, test, centres = source.draw(max(design.GROWTH_ROWS)), source.draw(streams.TEST), source.draw(design.CENTRES)
    truth = source.score(test).mean()
    if more == design.SINGLE:
        return {f"own_{n}": float(streams.gaussian(X[:n], test).mean() - truth) for n in design.GROWTH_ROWS}
    settings = [*design.DENSITY, *design.GROWTH_MORE.get(more, []), f"lca.neighbours={neighbours}", "snapshot.every_rows=500", "snapshot.every=1h"]
    value = {}
    with live.Live(streams.brokers[0], settings, command="learn", waiting=X) as s:
        s.wait(max(design.GROWTH_ROWS))
        for n in design.GROWTH_ROWS:
            m = s.model(n)
            value |= {f"own_{n}": float(m.score(test).mean() - truth), f"many_{n}": float(m.score(test, centres).mean() - truth),
                      f"parzen_{n}": len(m.parzen), f"seconds_{n}": s.seconds(n)}
    return value


EXPERIMENTS = {"growth": (design.growth, grown)}
