package pipeline

// provisional holds what a batch has counted so far. It becomes final when the batch is kept; a batch that is rewound
// is counted when it comes again.
type provisional struct {
	rows           uint64 // whitened
	rejects, moved []counted
	deads          []setAside
}

// counted is the number of messages for one reason. There are few reasons at a time.
type counted struct {
	reason string
	n      uint64
}

func (p *provisional) rejected(reason string, n uint64) { p.rejects = count(p.rejects, reason, n) }
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

// keep makes the counts final, and logs what was set aside.
func (p *provisional) keep(s *Stats, l *DeadLog) {
	s.TransformRows.Add(p.rows)
	for _, c := range p.rejects {
		s.reject.add(c.reason, c.n)
	}
	for _, c := range p.deads {
		s.dead.add(c.reason, c.n)
		l.say(c)
	}
	for _, c := range p.moved {
		s.Pass(c.reason, c.n)
	}
	p.drop()
}

func (p *provisional) drop() {
	clear(p.deads) // releases their errors
	p.rows, p.rejects, p.deads, p.moved = 0, p.rejects[:0], p.deads[:0], p.moved[:0]
}
