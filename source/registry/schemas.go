package registry

import (
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/source/format"
)

// mostSchemas bounds what is remembered, and so do keptTexts times the bytes that a schema may have; the oldest is forgotten first.
const (
	mostSchemas = 1000
	keptTexts   = 16
)

// schemas is what the registry has answered: the schemas of ids, and which ids it did not know a short while ago.
type schemas struct {
	mu     sync.Mutex
	byID   map[int]*format.Schema
	oldest []int // ids of byID, in the order in which they came
	text   int   // bytes of all schemas
	most   int   // of text
	absent map[int]absence
}

type absence struct {
	err   error
	until time.Time
}

func newSchemas(most int) *schemas {
	return &schemas{most: most, byID: map[int]*format.Schema{}, absent: map[int]absence{}}
}

// of returns what is remembered of an id: its schema, that there is none, or neither.
func (s *schemas) of(id int) (*format.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byID[id]; known != nil {
		return known, nil
	}
	if a, ok := s.absent[id]; ok && time.Now().Before(a.until) {
		return nil, a.err
	}
	return nil, nil
}

func (s *schemas) add(schema *format.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.absent, schema.ID)
	if s.byID[schema.ID] != nil {
		return
	}
	s.byID[schema.ID] = schema
	s.oldest = append(s.oldest, schema.ID)
	s.text += size(schema)
	for len(s.oldest) > 1 && (len(s.oldest) > mostSchemas || s.text > s.most) {
		s.text -= size(s.byID[s.oldest[0]])
		delete(s.byID, s.oldest[0])
		s.oldest = s.oldest[1:]
	}
}

// lack remembers for a while that there is no such id. Hostile values may name many.
func (s *schemas) lack(id int, err error, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.absent) >= mostSchemas {
		clear(s.absent)
	}
	s.absent[id] = absence{err, time.Now().Add(lasts)}
}

func size(s *format.Schema) int {
	n := len(s.Text)
	for _, r := range s.References {
		n += len(r.Text)
	}
	return n
}
