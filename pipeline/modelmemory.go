package pipeline

import "sync/atomic"

// ModelMemory bounds the memory of the models that the stages of a process hold: model.memory of the configuration, for
// learners and for transforms each. A stage holds one model at least.
type ModelMemory struct {
	limit  int64
	used   atomic.Int64
	stages atomic.Int64
	counts *ModelCounts
}

// NewModelMemory returns memory of that many bytes, for models that are counted in counts.
func NewModelMemory(limit int64, counts *ModelCounts) *ModelMemory {
	return &ModelMemory{limit: limit, counts: counts}
}

// modelShare is the part of one stage.
type modelShare struct {
	of     *ModelMemory
	own    int64
	models int64
}

// join begins a stage's part.
func (m *ModelMemory) join() *modelShare {
	m.stages.Add(1)
	return &modelShare{of: m}
}

// leave gives everything back.
func (s *modelShare) leave() {
	s.add(-s.own)
	s.held(-s.models)
	s.of.stages.Add(-1)
}

func (s *modelShare) add(bytes int64) {
	s.own += bytes
	s.of.used.Add(bytes)
}

func (s *modelShare) held(models int64) {
	s.models += models
	s.of.counts.Memory.Add(models)
}

// even is the stage's even part of the memory.
func (s *modelShare) even() int64 { return s.of.limit / max(1, s.of.stages.Load()) }

// over reports whether the stage has to give memory back: all together have too much, and this one has more than its
// even part.
func (s *modelShare) over() bool {
	return s.of.used.Load() > s.of.limit && s.own > s.even()
}
