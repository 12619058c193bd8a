"""NLL against rows and seconds for pools of several sizes, with and without the correction of the kernel's width."""
import numpy as np

import design
import live
import streams

prepare = streams.prepare


def grown(neighbours, corrected, run):
    """Test NLL with the pool's own rows as centres, and with many more; seconds since the rows were there."""
    source = streams.Source(run)
    X, test, centres = source.draw(max(design.GROWTH_ROWS)), source.draw(streams.TEST), source.draw(design.CENTRES)
    settings = [*design.DENSITY, f"lca.neighbours={neighbours}", "snapshot.every_rows=500", "snapshot.every=1h"]
    if corrected:
        settings.append(f"lca.target_rows={design.CENTRES}")
    value = {}
    with live.Live(streams.brokers[0], settings, command="learn") as s:
        s.put(X)
        s.wait(max(design.GROWTH_ROWS))
        for n in design.GROWTH_ROWS:
            m = s.model(n)
            value |= {f"own_{n}": float(m.score(test).mean()), f"many_{n}": float(m.score(test, centres).mean()),
                      f"seconds_{n}": s.seconds(n)}
    return value


EXPERIMENTS = {"growth": (design.growth, grown)}
