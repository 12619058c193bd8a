package online

import (
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/timegap"
)

// Scratch is working memory for many learners that work in turn. A learner of a small pool needs several times as much of
// it as its state takes. The zero value is ready; it is for one goroutine.
//
// What is learnt does not depend on it. It grows to what the largest learner of each kind needs.
type Scratch struct {
	spaces map[spaceKind]*space
}

// spaceKind is what working memory depends on.
type spaceKind struct {
	dim       int
	precision lca.Precision
	shape     kernel.Shape
}

// space is the working memory of one learner.
type space struct {
	estimator estimator
	spare     *metricState // the previous metric, whose memory is used again
	work      *linalg.Workspace
	momentsSpace

	m1, m2, global   []float64
	rows             []float64
	ids              []uint64
	places           []pool.Place
	inside, sifted   pool.Batch
	apart            apart
	inTime           pool.Near
	dependence       timegap.Autocorrelation
	kept, moved      []int  // rows of the last minibatch that was judged: those that are left, and those in which a constant column has moved
	beyond           []bool // rows of the last E-step that are far, or that the gate refuses
	stuck            bool   // whether a column of the last minibatch that was judged is
	closed           bool   // whether a row that the gate refuses had counted in it
	starts, excluded []int32
	density, sorted  []float64
	single, offset   []float64
}

func newSpace(c Config) *space {
	return &space{estimator: newEstimator(c), work: new(linalg.Workspace)}
}

func (c Config) spaceKind() spaceKind {
	return spaceKind{c.Dim, c.Precision, c.shape()}
}

// Borrow takes working memory from s until Return. A learner that was given back with Return needs it for all methods
// but Info, AlarmsOf, Waiting and Close.
func (l *Learner) Borrow(s *Scratch) {
	if sp := s.spaces[l.cfg.spaceKind()]; sp != nil {
		l.space, l.moments.momentsSpace = sp, sp.momentsSpace
		delete(s.spaces, l.cfg.spaceKind())
	} else if l.space == nil { // it takes its own, and leaves it there
		l.space = newSpace(l.cfg)
	}
}

// Return gives the working memory to s. That of a learner that has not borrowed any is dropped where s has some: a new
// learner's has not grown yet. What Step and other results point to is valid until another learner borrows it.
func (l *Learner) Return(s *Scratch) {
	if s.spaces == nil {
		s.spaces = map[spaceKind]*space{}
	}
	if kind := l.cfg.spaceKind(); s.spaces[kind] == nil {
		l.space.momentsSpace = l.moments.momentsSpace
		s.spaces[kind] = l.space
	}
	l.space, l.moments.momentsSpace = nil, momentsSpace{}
}
