package online

import (
	"cmp"
	"slices"
)

// place is where a row stands in time: its partition, and how many of the partition's rows the learner saw before it.
// Rows of a partition that is consumed in order are ordered in time; rows of two partitions are not comparable.
type place struct {
	partition int32
	at        uint64
}

// near reports whether two rows are nearer in time than gap rows.
func (p place) near(q place, gap uint64) bool {
	return p.partition == q.partition && p.partition != noPartition && max(p.at, q.at)-min(p.at, q.at) < gap
}

// compare orders places by partition and time.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.partition, q.partition), cmp.Compare(p.at, q.at))
}

// inOrder returns which place is the first by partition and time, which the second, and so on.
func inOrder(places []place) []int {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return places[a].compare(places[b]) })
	return order
}

// noPartition is that of rows whose place is not known, such as those of a snapshot. They are near to none in time.
const noPartition = -1

// batch is rows with their identities and places.
type batch struct {
	x      []float64 // row-major
	ids    []uint64
	places []place
}

func (b *batch) len() int { return len(b.ids) }

// append appends the rows of a.
func (b *batch) append(a batch) {
	b.x, b.ids, b.places = append(b.x, a.x...), append(b.ids, a.ids...), append(b.places, a.places...)
}

// pick copies the given rows of from; they are valid until the next call.
func (b *batch) pick(from batch, kept []int, d int) batch {
	b.x, b.ids, b.places = b.x[:0], b.ids[:0], b.places[:0]
	for _, i := range kept {
		b.x = append(b.x, from.x[i*d:(i+1)*d]...)
		b.ids, b.places = append(b.ids, from.ids[i]), append(b.places, from.places[i])
	}
	return *b
}

// forget drops the oldest rows.
func (b *batch) forget(rows, d int) {
	if rows == 0 {
		return
	}
	b.x, b.ids, b.places = slices.Clone(b.x[rows*d:]), slices.Clone(b.ids[rows:]), slices.Clone(b.places[rows:])
}

// equalFirst returns how many of the first rows are equal.
func (b *batch) equalFirst(d int) (rows int) {
	for rows < b.len() && slices.Equal(b.x[rows*d:(rows+1)*d], b.x[:d]) {
		rows++
	}
	return rows
}

// clocks count the rows of each partition, ascending by partition.
type clocks []place

// next returns the place of the partition's next row.
func (c *clocks) next(partition int32) place {
	i, found := slices.BinarySearchFunc(*c, partition, func(p place, q int32) int { return cmp.Compare(p.partition, q) })
	if !found {
		*c = slices.Insert(*c, i, place{partition: partition})
	}
	p := (*c)[i]
	(*c)[i].at++
	return p
}

func (b *batch) write(w *writer) {
	w.rows(b.x)
	w.words(b.ids)
	writePlaces(w, b.places)
}

// readBatch reads rows.
func readBatch(r *reader) (b batch) {
	b.x, b.ids = r.rows(), r.words()
	b.places = readPlaces(r, len(b.ids))
	return b
}

// valid reports whether the parts agree in number.
func (b *batch) valid(dim int) bool { return len(b.x) == len(b.ids)*dim && len(b.places) == len(b.ids) }

func writePlaces(w *writer, places []place) {
	w.count(len(places))
	for _, p := range places {
		w.varint(uint64(uint32(p.partition)))
		w.varint(p.at)
	}
}

// readPlaces reads places, or makes n unknown ones: the first edition had none.
func readPlaces(r *reader, n int) []place {
	if r.first {
		out := make([]place, n)
		for i := range out {
			out[i].partition = noPartition
		}
		return out
	}
	out := make([]place, r.count(2))
	for i := range out {
		out[i] = place{partition: int32(uint32(r.varint())), at: r.varint()}
	}
	return out
}
