package status

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// shared computes an answer for all who have asked for it since the last one was begun, one at a time and shareEvery apart at least, so that
// any number of clients costs what a few do. Each gets one that was begun after it had asked.
type shared struct {
	compute func() any

	mu   sync.Mutex
	last time.Time
	next *answer // that requests wait for and that is not begun; nil: none

	one sync.Mutex // held while an answer is computed
}

// shareEvery is how far apart answers are.
const shareEvery = 100 * time.Millisecond

// answer is the JSON of an answer once done is closed.
type answer struct {
	done chan struct{}
	text []byte
	err  error
}

// ServeHTTP waits for the next answer, and computes it if it is the first that does.
func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	a := s.next
	first := a == nil
	if first {
		a = &answer{done: make(chan struct{}), err: errors.New("it could not be computed")}
		s.next = a
	}
	wait := shareEvery - time.Since(s.last)
	s.mu.Unlock()
	if first {
		time.Sleep(wait)
		s.begin(a)
	}
	select {
	case <-a.done:
	case <-r.Context().Done():
		return
	}
	if a.err != nil {
		http.Error(w, "status: "+a.err.Error(), http.StatusInternalServerError)
		return
	}
	writeText(w, http.StatusOK, a.text)
}

// begin computes an answer. Clients that ask from then on get the one after it.
func (s *shared) begin(a *answer) {
	s.one.Lock()
	defer s.one.Unlock()
	defer close(a.done)
	s.mu.Lock()
	s.next, s.last = nil, time.Now()
	s.mu.Unlock()
	a.text, a.err = json.MarshalIndent(s.compute(), "", "  ")
}
