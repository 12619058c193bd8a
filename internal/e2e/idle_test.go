//go:build unix

package e2e_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A learner, or a static transform, whose stream is silent loses its work to an import, a replay, a reset of offsets or a second
// process. It ends with exit code 3 though no record comes. Left alone it goes on.
func TestIdleWorkersNoticeThatTheyAreFenced(t *testing.T) {
	t.Parallel()
	kinds := []kafkatest.Kind{kafkatest.Kafka41, kafkatest.Kafka38}
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStream(t, kafkatest.Shared(t, kind), "silent", settings{partitions: 1, static: true, features: "[a, b, c]"})
			s.rows(0, 2000)
			learn := s.program("learn")
			s.await("silent.learn", 2000, learn)
			transform := s.program("transform")
			s.await("silent", 2000, learn, transform)
			s.grow(1000, learn)
			other := filepath.Join(s.dir, "other.arrows")
			s.command("replay", "--from", "0=500", "--output", other)
			model := filepath.Join(s.dir, "model.arrows")
			s.command("snapshot", "export", "-o", model)
			for _, taken := range [][]string{
				{"snapshot", "import", "--file", other},
				{"replay", "--from", "0=100", "--to", "0=1500"},
				{"offsets", "reset", "--to", "latest", "--stage", "learn"},
			} {
				s.command(taken...)
				learn.losesWork(taken[0])
				transform.alive()
				learn.start()
				learn.idles()
			}
			second := s.program("learn", "--set", "logger.level=info")
			learn.losesWork("a second learner")
			s.command("snapshot", "import", "--file", model, "--set", "snapshot.model_id=another")
			s.command("offsets", "reset", "--to", "latest", "--stage", "transform")
			transform.losesWork("a reset of the transform")
			second.idles()
			second.stop()
		})
	}
}

// losesWork waits for exit code 3, which comes within twice the longest time between two looks.
func (p *program) losesWork(to string) {
	p.s.t.Helper()
	began := time.Now()
	p.endsWith(3)
	p.s.t.Logf("%s ends %v after it has lost its work to %s", p.args[0], time.Since(began).Round(100*time.Millisecond), to)
	if after := time.Since(began); after > 20*time.Second {
		p.s.t.Errorf("%s takes %v to notice", p.args[0], after)
	}
}

// idles watches an idle program for longer than it takes it to ask whether its work is its own.
func (p *program) idles() {
	p.s.t.Helper()
	for until := time.Now().Add(6 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		p.alive()
	}
}
