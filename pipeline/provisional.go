package pipeline

// provisional is what a batch has counted so far. It counts once the batch is kept: one that goes back is
// counted when it comes again.
type provisional struct {
	rows                  uint64 // whitened
	rejects, deads, moved []counted
}

// counted is how many came of one reason. There are few reasons at a time.
type counted struct {
	reason string
	n      uint64
}

func (p *provisional) rejected(reason string, n uint64) { p.rejects = count(p.rejects, reason, n) }
func (p *provisional) dead(code string, n uint64)       { p.deads = count(p.deads, code, n) }
func (p *provisional) passed(reason string, n uint64)   { p.moved = count(p.moved, reason, n) }

func count(all []counted, reason string, n uint64) []counted {
	for i := range all {
		if all[i].reason == reason {
			all[i].n += n
			return all
		}
	}
	return append(all, counted{reason, n})
}

// keep counts for good.
func (p *provisional) keep(s *Stats) {
	s.TransformRows.Add(p.rows)
	for _, c := range p.rejects {
		s.reject.add(c.reason, c.n)
	}
	for _, c := range p.deads {
		s.dead.add(c.reason, c.n)
	}
	for _, c := range p.moved {
		s.Pass(c.reason, c.n)
	}
	p.drop()
}

func (p *provisional) drop() {
	p.rows, p.rejects, p.deads, p.moved = 0, p.rejects[:0], p.deads[:0], p.moved[:0]
}
