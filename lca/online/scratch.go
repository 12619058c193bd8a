package online

import (
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
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
	estimator                estimator
	buffers                  buffers
	work                     *linalg.Workspace
	spare                    *metricState
	centre, centred, squares []float64 // of the running moments
}

func (l *Learner) spaceKind() spaceKind {
	return spaceKind{l.cfg.Dim, l.cfg.Precision, l.cfg.shape()}
}

// Borrow takes working memory from s until Return. A learner that was given back with Return needs it for all methods
// but Info, AlarmsOf and Close.
func (l *Learner) Borrow(s *Scratch) {
	sp := s.spaces[l.spaceKind()]
	if sp == nil { // it takes its own, and leaves it there
		if l.estimator == nil {
			l.estimator, l.work = newEstimator(l.cfg), new(linalg.Workspace)
		}
		return
	}
	l.estimator, l.buffers, l.work, l.spare = sp.estimator, sp.buffers, sp.work, sp.spare
	l.moments.centre, l.moments.centred, l.moments.outer = sp.centre, sp.centred, sp.squares
	delete(s.spaces, l.spaceKind())
}

// Return gives the working memory to s. That of a learner that has not borrowed any is dropped where s has some: a new
// learner's has not grown yet. What Step and other results point to is valid until another learner borrows it.
func (l *Learner) Return(s *Scratch) {
	if s.spaces == nil {
		s.spaces = map[spaceKind]*space{}
	}
	g, kind := l.moments, l.spaceKind()
	if s.spaces[kind] == nil {
		s.spaces[kind] = &space{l.estimator, l.buffers, l.work, l.spare, g.centre, g.centred, g.outer}
	}
	l.estimator, l.buffers, l.work, l.spare = nil, buffers{}, nil, nil
	g.centre, g.centred, g.outer = nil, nil, nil
}
