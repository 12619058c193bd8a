package status

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Any number of clients costs one answer at a time, each of which was begun after those who get it had asked. (250 connections with 20 requests each once kept
// both processors busy for 8 s.)
func TestClientsShareAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, requests = 250, 20
		var begun, now atomic.Int64
		s := &shared{compute: func() any {
			n := begun.Add(1)
			if now.Add(1) > 1 {
				t.Error("two answers are computed at a time")
			}
			time.Sleep(time.Millisecond)
			now.Add(-1)
			return n
		}}
		started := time.Now()
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range requests {
					asked := begun.Load()
					w := httptest.NewRecorder()
					s.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
					if got, err := strconv.ParseInt(strings.TrimSpace(w.Body.String()), 10, 64); err != nil || got <= asked {
						t.Errorf("answer %d to a question after %d: %v", got, asked, err)
					}
				}
			})
		}
		all.Wait()
		if n, most := begun.Load(), int64(time.Since(started)/shareEvery)+1; n > most || n > requests+1 {
			t.Errorf("%d answers were computed in %v for %d requests", n, time.Since(started), clients*requests)
		}
		alone := time.Now()
		time.Sleep(shareEvery)
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if took := time.Since(alone) - shareEvery; took > time.Millisecond {
			t.Errorf("a client that is alone waits for %v", took)
		}
	})
}
