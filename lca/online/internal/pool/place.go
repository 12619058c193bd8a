package pool

import (
	"cmp"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// Place is where a row stands in time: its partition, and how many of the partition's rows the learner saw before it.
// Rows of a partition that is consumed in order are ordered in time; rows of two partitions are not comparable.
type Place struct {
	Partition int32
	At        uint64
}

// Near reports whether two rows are nearer in time than gap rows.
func (p Place) Near(q Place, gap uint64) bool {
	return p.Partition == q.Partition && p.Partition != NoPartition && max(p.At, q.At)-min(p.At, q.At) < gap
}

// Compare orders places by partition and time.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Partition, q.Partition), cmp.Compare(p.At, q.At))
}

// InOrder returns which place is the first by partition and time, which the second, and so on, in the memory of order if it suffices.
func InOrder(order []int, places []Place) []int {
	order = order[:0]
	for i := range places {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int { return places[a].Compare(places[b]) })
	return order
}

// NoPartition is that of rows whose place is not known, such as those of a snapshot. They are near to none in time.
const NoPartition = -1

// Clocks count the rows of each partition, ascending by partition.
type Clocks []Place

// Next returns the place of the partition's next row.
func (c *Clocks) Next(partition int32) Place {
	i, found := slices.BinarySearchFunc(*c, partition, func(p Place, q int32) int { return cmp.Compare(p.Partition, q) })
	if !found {
		*c = slices.Insert(*c, i, Place{Partition: partition})
	}
	p := (*c)[i]
	(*c)[i].At++
	return p
}

// Places passes places to a state or from one; n unknown ones where it is of the first edition, which had none.
func Places(f *state.Fields, places *[]Place, n int) {
	if f.Version == state.FirstEdition {
		*places = make([]Place, n)
		for i := range *places {
			(*places)[i].Partition = NoPartition
		}
		return
	}
	state.List(f, places, 2, func(p *Place) {
		partition := uint64(uint32(p.Partition))
		f.Varint(&partition)
		f.Varint(&p.At)
		p.Partition = int32(uint32(partition))
	})
}
