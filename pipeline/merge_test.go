package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source"
)

// partitionSource gives the messages of one partition, a few at a time.
type partitionSource struct {
	p     source.Partition
	all   []source.Message
	next  int
	step  int
	ended bool // closed
}

func (s *partitionSource) Read(context.Context) (source.Batch, error) {
	if s.next == len(s.all) {
		return source.Batch{}, source.ErrEnd
	}
	to := min(s.next+s.step, len(s.all))
	b := source.Batch{Messages: slices.Clone(s.all[s.next:to]), Claim: source.Claim{Group: "g", Next: source.Offsets{s.p: int64(to)}}}
	s.next = to
	return b, nil
}

func (s *partitionSource) Seek(_ context.Context, to source.Offsets) error {
	if len(to) != 1 {
		return fmt.Errorf("offsets of %d partitions for %v", len(to), s.p)
	}
	s.next = int(to[s.p])
	return nil
}

func (s *partitionSource) Close() error { s.ended = true; return nil }

// merged makes a Merge of partitions 0, 1, … with messages at the given seconds; step messages a Read.
func merged(step, size int, seconds ...[]int) (*Merge, []*partitionSource) {
	sources, all := map[source.Partition]Source{}, []*partitionSource{}
	for id, times := range seconds {
		s := &partitionSource{p: source.Partition{Topic: "t", ID: int32(id)}, step: step}
		for offset, at := range times {
			s.all = append(s.all, source.Message{Partition: s.p, Offset: int64(offset), Time: time.Unix(int64(at), 0), Value: make([]byte, size)})
		}
		sources[s.p], all = s, append(all, s)
	}
	return NewMerge(sources), all
}

// drain reads to the end and writes what came as partition@offset.
func drain(t *testing.T, m *Merge) (order []string, reads int) {
	t.Helper()
	next := source.Offsets{}
	for ; ; reads++ {
		b, err := m.Read(context.Background())
		if errors.Is(err, source.ErrEnd) {
			return order, reads
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range b.Messages {
			order = append(order, fmt.Sprintf("%d@%d", msg.Partition.ID, msg.Offset))
			next[msg.Partition] = msg.Offset + 1
		}
		if d := cmp.Diff(next, b.Claim.Next); d != "" || b.Claim.Group != "g" {
			t.Errorf("the claim of group %q is not what was read: %s", b.Claim.Group, d)
		}
	}
}

func TestMergeOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		seconds [][]int
		want    []string
	}{
		{"by time", [][]int{{1, 4}, {2, 3}}, []string{"0@0", "1@0", "1@1", "0@1"}},
		{"then by partition", [][]int{{5, 5}, {5}, {5}}, []string{"0@0", "0@1", "1@0", "2@0"}},
		{"never against the offsets of a partition", [][]int{{9, 1, 2}, {3, 4}}, []string{"1@0", "1@1", "0@0", "0@1", "0@2"}},
		{"one is empty", [][]int{{}, {1, 2}}, []string{"1@0", "1@1"}},
		{"all are", [][]int{{}, {}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 100} { // however the brokers cut their answers
				m, sources := merged(step, 1, c.seconds...)
				for pass := range 2 {
					if got, _ := drain(t, m); !slices.Equal(got, c.want) {
						t.Errorf("pass %d, %d messages a read: %v, want %v", pass, step, got, c.want)
					}
					start := source.Offsets{{Topic: "elsewhere"}: 7}
					for _, s := range sources {
						start[s.p] = 0
					}
					if err := m.Seek(context.Background(), start); err != nil {
						t.Fatal(err)
					}
				}
				if err := m.Close(); err != nil || !sources[0].ended || !sources[1].ended {
					t.Errorf("closed: %v", err)
				}
			}
		})
	}
}

// meeting is a source whose Reads wait for those of all others.
type meeting struct {
	partitionSource
	came *sync.WaitGroup
	all  chan struct{}
	met  bool
}

func (s *meeting) Read(ctx context.Context) (source.Batch, error) {
	if !s.met {
		s.met = true
		s.came.Done()
	}
	select {
	case <-s.all:
		return s.partitionSource.Read(ctx)
	case <-ctx.Done():
		return source.Batch{}, ctx.Err()
	}
}

// Partitions that are read ahead are read side by side, an interrupt ends a Read that waits for them, and they can be read again.
func TestMergeReadsAhead(t *testing.T) {
	const n = 5
	var came sync.WaitGroup
	came.Add(n)
	all, sources := make(chan struct{}), map[source.Partition]Source{}
	for id := range int32(n) {
		p := source.Partition{Topic: "t", ID: id}
		messages := []source.Message{{Partition: p, Time: time.Unix(int64(id), 0)}}
		sources[p] = ReadAhead(&meeting{partitionSource: partitionSource{p: p, all: messages, step: 1}, came: &came, all: all})
	}
	m := NewMerge(sources)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { came.Wait(); cancel() }()
	if _, err := m.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	close(all)
	start := source.Offsets{}
	for p := range sources {
		start[p] = 0
	}
	for range 2 {
		if b, err := m.Read(t.Context()); err != nil || len(b.Messages) != n {
			t.Errorf("%d messages (%v), want %d", len(b.Messages), err, n)
		}
		if _, err := m.Read(t.Context()); !errors.Is(err, source.ErrEnd) {
			t.Errorf("after the last: %v", err)
		}
		if err := m.Seek(t.Context(), start); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// What one Read returns is bounded by messages and by bytes, so that memory does not grow with a topic.
func TestMergeIsBounded(t *testing.T) {
	for _, c := range []struct {
		name        string
		messages    int
		size, reads int
	}{
		{"small messages", 3 * MergeMost, 10, 3},
		{"large messages", 40, mergeBytes / 4, 10},
		{"larger than the bound", 5, 2 * mergeBytes, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := merged(16, c.size, make([]int, c.messages))
			if order, reads := drain(t, m); len(order) != c.messages || reads != c.reads {
				t.Errorf("%d messages in %d reads, want %d in %d", len(order), reads, c.messages, c.reads)
			}
		})
	}
	m, _ := merged(1, 1, []int{1}, []int{2})
	if err := m.Seek(context.Background(), source.Offsets{{Topic: "t"}: 0}); err == nil {
		t.Error("a seek that leaves a partition out was taken")
	}
}
