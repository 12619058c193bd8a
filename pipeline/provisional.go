package pipeline

import (
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// provisional holds what a batch has counted so far. It becomes final when the batch is kept; a batch that is rewound
// is counted when it comes again.
type provisional struct {
	rows      uint64 // whitened
	imputed   uint64 // those of them that lacked features
	anomalies uint64 // rows below alarms.p_below
	p         scoreCounts
	strange   strangeRows
	moved     []counted
	without   recordPlace // the first record that passed without a model
	rejects   []unusable
	deads     []setAside
	stamps    []stamp
}

// stamp is the time of n messages in a row.
type stamp struct {
	at time.Time
	n  uint64
}

// counted is the number of messages for one reason. There are few reasons at a time.
type counted struct {
	reason string
	n      uint64
}

// read notes the times of messages, of which many come in the same millisecond. A time before 1970 means that the
// producer gave none.
func (p *provisional) read(messages []source.Message) {
	for i := range messages {
		at := messages[i].Time
		if at.Unix() < 0 {
			continue
		}
		if last := len(p.stamps) - 1; last >= 0 && p.stamps[last].at.Equal(at) {
			p.stamps[last].n++
		} else {
			p.stamps = append(p.stamps, stamp{at, 1})
		}
	}
}

// recordPlace is where a record is.
type recordPlace struct {
	partition source.Partition
	offset    int64
}

// unusable is the number of rows for one reason, and where the first of them is.
type unusable struct {
	counted
	partition source.Partition
	offset    int64
	row       int
	features  []string // those that are to blame in the first rows; nil: not known
}

// looked is how many rows of a batch are looked at for the features that are to blame, for each reason.
const looked = 32

// blame adds the features to blame in one more row.
func (u *unusable) blame(features []string) {
	for _, name := range features {
		if !slices.Contains(u.features, name) {
			u.features = append(u.features, name)
		}
	}
}

// rejected counts rows, and returns the entry for this reason, for the caller to say where the first of them is and why.
func (p *provisional) rejected(reason string, n uint64) *unusable {
	for i := range p.rejects {
		if p.rejects[i].reason == reason {
			p.rejects[i].n += n
			return &p.rejects[i]
		}
	}
	p.rejects = append(p.rejects, unusable{counted: counted{reason, n}, row: -1})
	return &p.rejects[len(p.rejects)-1]
}

func (p *provisional) passed(reason string, n uint64) { p.moved = count(p.moved, reason, n) }

// passedWithoutModel counts a record whose rows have null results because there is no model yet.
func (p *provisional) passedWithoutModel(m *source.Message) {
	if !slices.ContainsFunc(p.moved, func(c counted) bool { return c.reason == reasonNoModel }) {
		p.without = recordPlace{m.Partition, m.Offset}
	}
	p.passed(reasonNoModel, 1)
}

func count(all []counted, reason string, n uint64) []counted {
	for i := range all {
		if all[i].reason == reason {
			all[i].n += n
			return all
		}
	}
	return append(all, counted{reason, n})
}

// keep makes the counts final, and logs what was set aside or not whitened.
func (p *provisional) keep(s *Stats, l *DeadLog, now time.Time) {
	s.TransformRows.Add(p.rows)
	s.AnomalyRows.Add(p.anomalies)
	s.ImputedRows.Add(p.imputed)
	s.AddScores(&p.p)
	s.AddStrange(now, p.strange)
	for _, c := range p.rejects {
		s.Reject(c.reason, c.n)
		l.rows(&c)
	}
	for _, c := range p.deads {
		s.SetAside(c.reason, c.n)
		l.say(c)
	}
	for _, c := range p.moved {
		s.Pass(c.reason, c.n)
		if c.reason == reasonNoModel {
			l.withoutModel(c.n, p.without)
		}
	}
	for _, st := range p.stamps {
		s.EndToEnd.observeAll(now.Sub(st.at), st.n)
	}
	p.drop()
}

func (p *provisional) drop() {
	clear(p.deads) // releases their errors
	clear(p.rejects)
	p.rows, p.imputed, p.anomalies, p.rejects, p.deads, p.moved, p.stamps = 0, 0, 0, p.rejects[:0], p.deads[:0], p.moved[:0], p.stamps[:0]
	p.p, p.strange = scoreCounts{}, nil
}
