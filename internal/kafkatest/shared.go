package kafkatest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// sharedHeapMiB is enough for the topics of all tests that are at work at once.
const sharedHeapMiB = 512

// shared are the brokers of the test binary, by kind.
var shared struct {
	sync.Mutex
	brokers map[Kind]*sharedBroker
}

type sharedBroker struct {
	*Broker
	life  *lifetime
	asked map[string]bool // tests, by name
}

// Shared returns the broker that the tests of a package have in common. It starts with the first test that asks for it and ends with
// Tests.Run. A test gives its topics, groups and transactional ids names that no other test has. Only where no other test runs at the same
// time may it stop the broker, which it starts again, or change its settings, which it puts back.
//
// The embedded broker starts at once, so there each test has its own.
func Shared(t testing.TB, k Kind) *Broker {
	t.Helper()
	if k == Embedded {
		return Start(t, k)
	}
	shared.Lock()
	defer shared.Unlock()
	s := shared.brokers[k]
	if s != nil && s.asked[t.Name()] { // with -count all tests run again, when all of them have ended
		s.life.end(false)
		delete(shared.brokers, k)
		s = nil
	}
	if s == nil {
		s = startShared(t, k)
		if shared.brokers == nil {
			shared.brokers = map[Kind]*sharedBroker{}
		}
		shared.brokers[k] = s
	}
	s.asked[t.Name()] = true
	b := *s.Broker
	b.t, b.trans = t, transport(t)
	return &b
}

func startShared(t testing.TB, k Kind) *sharedBroker {
	t.Helper()
	life := &lifetime{TB: t}
	up := false
	defer func() { // Fatal does not return
		if !up {
			life.end(true)
		}
	}()
	b := StartWith(life, k, Setup{HeapMiB: sharedHeapMiB})
	up = true
	return &sharedBroker{b, life, map[string]bool{}}
}

// Tests are those of a package, with an end for the brokers that they shared:
//
//	func TestMain(m *testing.M) { os.Exit(kafkatest.Tests{M: m}.Run()) }
type Tests struct{ *testing.M }

// Run runs the tests, and ends the brokers.
func (m Tests) Run() int {
	code := m.M.Run()
	for _, s := range shared.brokers {
		s.life.end(code != 0)
	}
	return code
}

// lifetime is the testing.TB of what outlives the test that began it.
type lifetime struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (l *lifetime) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }
func (l *lifetime) Failed() bool     { return l.failed }

func (l *lifetime) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (l *lifetime) end(failed bool) {
	l.failed = failed
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
	l.cleanups = nil
}
