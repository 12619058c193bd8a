package minibatch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stream is n rows of two columns, with identities that tell them apart.
func stream(n int) (x []float64, ids []uint64) {
	for i := range n {
		x = append(x, float64(i), -float64(i)/3)
		ids = append(ids, NewRowIDs("t", 0).ID(7, i))
	}
	return x, ids
}

// flat copies minibatches, which are valid for one step only.
type flat struct {
	X   []float64
	IDs []uint64
}

func keep(m Minibatch) flat {
	return flat{slices.Clone(m.X.RawMatrix().Data), slices.Clone(m.IDs)}
}

func TestBatcher(t *testing.T) {
	x, ids := stream(10)
	for _, c := range []struct {
		name string
		cuts []int // rows of each Add
		rows int
		want int // minibatches
		rest int
	}{
		{"one piece", []int{10}, 3, 3, 1},
		{"exact", []int{10}, 5, 2, 0},
		{"row by row", []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 3, 3, 1},
		{"nothing complete", []int{4, 6}, 11, 0, 10},
		{"empty pieces", []int{0, 4, 0, 6, 0}, 4, 2, 2},
		{"remainder completed exactly", []int{2, 1, 7}, 3, 3, 1},
		{"single rows", []int{3, 7}, 1, 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBatcher(2, c.rows)
			var got flat
			at, batches := 0, 0
			for _, n := range c.cuts {
				for m := range b.Add(x[2*at:2*(at+n)], ids[at:at+n], 3) {
					if r, d := m.X.Dims(); r != c.rows || d != 2 || len(m.IDs) != c.rows || len(m.Partitions) != c.rows {
						t.Fatalf("minibatch of %d×%d with %d identities", r, d, len(m.IDs))
					}
					k := keep(m)
					got.X, got.IDs = append(got.X, k.X...), append(got.IDs, k.IDs...)
					batches++
				}
				at += n
			}
			if batches != c.want || b.Len() != c.rest {
				t.Fatalf("%d minibatches and %d left, want %d and %d", batches, b.Len(), c.want, c.rest)
			}
			if rest := b.Rest(); c.rest > 0 {
				k := keep(rest)
				got.X, got.IDs = append(got.X, k.X...), append(got.IDs, k.IDs...)
			} else if rest.X != nil || rest.IDs != nil {
				t.Error("a remainder of no rows is not nil")
			}
			if diff := cmp.Diff(flat{x, ids}, got); diff != "" {
				t.Errorf("rows lost, doubled or out of order: %s", diff)
			}
		})
	}
}

// TestBatcherLeftEarly: breaking out of the loop must not lose rows.
func TestBatcherLeftEarly(t *testing.T) {
	x, ids := stream(10)
	b := NewBatcher(2, 2)
	var got []uint64
	for m := range b.Add(x[:2], ids[:1], 3) {
		t.Fatalf("one row completed a minibatch %v", m.IDs)
	}
	for m := range b.Add(x[2:], ids[1:], 3) {
		got = append(got, m.IDs...)
		break
	}
	if b.Len() != 8 {
		t.Fatalf("%d rows kept, want 8", b.Len())
	}
	for m := range b.Add(nil, nil, 3) {
		got = append(got, m.IDs...)
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Error(diff)
	}
}

// TestBatcherRangedTwice: the second sweep over one Add must not feed its rows again.
func TestBatcherRangedTwice(t *testing.T) {
	x, ids := stream(5)
	b := NewBatcher(2, 3)
	seq := b.Add(x, ids, 3)
	n := 0
	for range 2 {
		for range seq {
			n++
		}
	}
	if n != 1 || b.Len() != 2 {
		t.Errorf("%d minibatches, %d rows left; want 1 and 2", n, b.Len())
	}
}

// TestBatcherPartitions: each row keeps the partition that it was handed over with, over a checkpoint too.
func TestBatcherPartitions(t *testing.T) {
	b := NewBatcher(1, 4)
	var got []int32
	for i, n := range []int{1, 2, 6, 1, 3} {
		for m := range b.Add(make([]float64, n), make([]uint64, n), int32(i)) {
			got = append(got, m.Partitions...)
		}
		state, err := b.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		b = NewBatcher(1, 4)
		if err := b.UnmarshalBinary(state); err != nil {
			t.Fatal(err)
		}
	}
	got = append(got, b.Rest().Partitions...)
	if diff := cmp.Diff([]int32{0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 4, 4, 4}, got); diff != "" {
		t.Error(diff)
	}
}

// Rows with nulls lie between those of a minibatch, which come by their number alone, however rows are handed over and over checkpoints; of very many
// rows with nulls only the first wait.
func TestBatcherSeries(t *testing.T) {
	const n, rows = 200, 4
	x, ids, series := make([]float64, 2*n), make([]uint64, n), make([]uint64, n)
	for i := range ids {
		x[2*i], x[2*i+1], ids[i], series[i] = float64(i), 1, uint64(i), uint64(i%3)
		if i%7 == 2 || i >= 100 && i < 150 {
			x[2*i+i%2] = math.NaN()
		}
	}
	cut := func(size int) (said string) {
		b := NewBatcher(2, rows)
		add := func(m Minibatch) {
			whole := 0
			for i := range m.IDs {
				if isWhole(m.X.RawRowView(i)) {
					whole++
				}
			}
			if whole != m.Rows || len(m.Partitions) != len(m.IDs) {
				t.Errorf("%d rows without nulls, %d said, %d partitions", whole, m.Rows, len(m.Partitions))
			}
			said += fmt.Sprintf("%d %v %v %v\n", m.Rows, m.IDs, m.Series, m.X.RawMatrix().Data)
		}
		for at := 0; at < n; at += size {
			to := min(at+size, n)
			for m := range b.AddSeries(x[2*at:2*to], ids[at:to], series[at:to], 5) {
				if m.Rows != rows {
					t.Errorf("a minibatch of %d rows", m.Rows)
				}
				add(m)
			}
			state, err := b.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			b = NewBatcher(2, rows)
			if err := b.UnmarshalBinary(state); err != nil {
				t.Fatal(err)
			}
		}
		add(b.Rest())
		return said
	}
	want := cut(1)
	for _, size := range []int{3, 50, n} {
		if diff := cmp.Diff(want, cut(size)); diff != "" {
			t.Errorf("in pieces of %d: %s", size, diff)
		}
	}
	if !strings.Contains(want, " 115 ") || strings.Contains(want, " 120 ") { // 16 rows with nulls wait
		t.Error(want)
	}
	b := NewBatcher(2, rows) // rows of two kinds meet
	for range b.AddSeries([]float64{1, math.NaN()}, []uint64{1}, []uint64{9}, 5) {
		t.Error("a row with a null has completed a minibatch")
	}
	for m := range b.Add(x[:2*2], ids[:2], 5) {
		t.Error(m)
	}
	for m := range b.Add(x[3*2:7*2], ids[3:7], 5) {
		if !slices.Equal(m.IDs, []uint64{1, 0, 1, 3, 4}) || !slices.Equal(m.Series, []uint64{9, 5, 5, 5, 5}) {
			t.Errorf("%v of series %v", m.IDs, m.Series)
		}
	}
	if b.Len() != 2 {
		t.Errorf("%d rows are left", b.Len())
	}
}

// TestBatcherFormerState: a remainder without partitions is still read.
func TestBatcherFormerState(t *testing.T) {
	state := []byte("B1\x01\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf0\x3f")
	b := NewBatcher(1, 4)
	if err := b.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	if rest := b.Rest(); rest.IDs[0] != 7 || rest.X.At(0, 0) != 1 || rest.Partitions[0] != -1 {
		t.Errorf("%+v", rest)
	}
}

func TestBatcherState(t *testing.T) {
	b := NewBatcher(2, 4)
	for range b.Add([]float64{1, math.Copysign(0, -1), 1.0 / 3, math.MaxFloat64}, []uint64{5, math.MaxUint64}, 3) {
		t.Fatal("two rows are not a minibatch of four")
	}
	state, err := b.AppendBinary([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	state = state[len("before"):]
	c := NewBatcher(2, 1) // another minibatch size takes the remainder up
	if err := c.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	again, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state, again); diff != "" {
		t.Errorf("state changed on its way: %s", diff)
	}
	if err := NewBatcher(3, 4).UnmarshalBinary(state); err == nil {
		t.Error("a remainder of 2 columns was taken by a Batcher of 3")
	}
	for n := range len(state) {
		if err := c.UnmarshalBinary(state[:n]); err == nil {
			t.Errorf("state cut to %d bytes of %d was taken", n, len(state))
		}
	}
	if c.Len() != 2 {
		t.Error("a refused state changed the Batcher")
	}
}

// TestRowIDGolden: these values, computed from the formula in Python, stand in checkpoints
// everywhere; a change here breaks them.
func TestRowIDGolden(t *testing.T) {
	for _, c := range []struct {
		topic     string
		partition int32
		offset    int64
		row       int
		want      uint64
	}{
		{"events", 0, 0, 0, 0xe93ab99fdbb4cdbf},
		{"events", 0, 0, 1, 0x4f43d70312ff2cf7},
		{"events", 0, 1, 0, 0x3859c0c700523eb2},
		{"events", 1, 0, 0, 0xfee7a5817aedaa3b},
		{"events", 2147483647, 9223372036854775807, 1048575, 0x11d512eae143c7da},
		{"", 0, 0, 0, 0xf9dd19abcf598045},
	} {
		if got := NewRowIDs(c.topic, c.partition).ID(c.offset, c.row); got != c.want {
			t.Errorf("NewRowIDs(%q, %d).ID(%d, %d) = %#x, want %#x", c.topic, c.partition, c.offset, c.row, got, c.want)
		}
	}
}

// TestRowIDsDiffer: near positions, which a weak hash confuses, have identities of their own.
func TestRowIDsDiffer(t *testing.T) {
	seen := make(map[uint64]bool)
	n := 0
	for partition := range int32(4) {
		for offset := range int64(50) {
			for row := range 50 {
				seen[NewRowIDs("events", partition).ID(offset, row)] = true
				n++
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d identities for %d rows", len(seen), n)
	}
}

// TestAppendValid: only good rows go on to the learner, each under the identity of its place.
func TestAppendValid(t *testing.T) {
	rows := Rows{N: 3, Dim: 2, X: []float64{1, 2, 0, 0, 5, 6}, Invalid: []Reason{ReasonNone, ReasonNull, ReasonNone}, Bad: 1}
	x, ids := rows.AppendValid([]float64{9, 9}, []uint64{9}, NewRowIDs("events", 4), 77, 0)
	if diff := cmp.Diff([]float64{9, 9, 1, 2, 5, 6}, x); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{9, NewRowIDs("events", 4).ID(77, 0), NewRowIDs("events", 4).ID(77, 2)}, ids); diff != "" {
		t.Error(diff)
	}
	if _, ids = rows.AppendValid(nil, nil, NewRowIDs("events", 4), 77, 100); ids[1] != NewRowIDs("events", 4).ID(77, 102) {
		t.Errorf("a slice that begins at row 100 has identities %v", ids)
	}
}
