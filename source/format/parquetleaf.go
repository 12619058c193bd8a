package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/parquet-go/parquet-go"
)

// leafValues are the values of a leaf for some rows, as Parquet has them: nulls have levels and no value.
type leafValues struct {
	defs    []byte  // definition levels; nil: of a leaf that is never null
	reps    []byte  // repetition levels; nil: of a leaf that is in no list
	levels  int     // number of levels
	count   int     // number of values
	dense   []byte  // the values, or the bytes of texts; a byte per boolean
	offsets []int32 // of texts
}

// leafReader reads the values of one column chunk, page by page.
type leafReader struct {
	leaf  *parquetLeaf
	pages parquet.Pages
	left  *budget

	page       parquet.Page // nil: none
	defs, reps []byte       // levels of the page
	levels     int          // number of them
	level      int          // the next one
	index      []int32      // the values' places in the dictionary; nil: there is none
	dense      []byte       // the values of the page, or of the dictionary
	offsets    []uint32     // of texts
	value      int          // the next value
}

func newLeafReader(leaf *parquetLeaf, chunk parquet.ColumnChunk, left *budget) *leafReader {
	return &leafReader{leaf: leaf, pages: chunk.Pages(), left: left}
}

func (r *leafReader) close() {
	r.drop()
	_ = r.pages.Close() // it was only read
}

// drop gives the memory of the page back.
func (r *leafReader) drop() {
	if r.page != nil {
		parquet.Release(r.page)
	}
	*r = leafReader{leaf: r.leaf, pages: r.pages, left: r.left}
}

// turn goes on to the next page; io.EOF after the last.
func (r *leafReader) turn() error {
	r.drop()
	if err := r.leaf.guard.next(); err != nil {
		return err
	}
	page, err := r.pages.ReadPage()
	if err != nil {
		return err
	}
	r.page, r.levels = page, int(page.NumValues())
	r.defs, r.reps = page.DefinitionLevels(), page.RepetitionLevels()
	if r.leaf.maxDef > 0 && len(r.defs) != r.levels || r.leaf.maxRep > 0 && len(r.reps) != r.levels {
		return errLevels
	}
	values := page.Data()
	if dict := page.Dictionary(); dict != nil {
		r.index = values.Int32()
		values = dict.Page().Data()
	}
	r.dense, r.offsets = values.Data()
	return nil
}

// read appends the next rows to v. A chunk that ends before is an error: some readers give an encoding they do not know as an
// empty column.
func (r *leafReader) read(rows int, v *leafValues) error {
	if err := r.reserve(rows, v); err != nil {
		return err
	}
	for begun := 0; ; {
		if r.level == r.levels {
			err := r.turn()
			switch {
			case errors.Is(err, io.EOF) && begun == rows:
				return nil
			case errors.Is(err, io.EOF):
				return fmt.Errorf("it ends after %d of %d rows: %w", begun, rows, io.ErrUnexpectedEOF)
			case err != nil:
				return err
			}
		}
		n := min(rows-begun, r.levels-r.level)
		if r.leaf.maxRep == 0 {
			begun += n
		} else if n, begun = r.span(rows, begun); begun == 0 {
			return errLevels // values of a row that no page began
		}
		if err := r.take(n, v); err != nil {
			return err
		}
		if begun == rows && (r.leaf.maxRep == 0 || r.level < r.levels) { // the last row of a list may go on in the next page
			return nil
		}
	}
}

// reserve makes room for as many values as rows.
func (r *leafReader) reserve(rows int, v *leafValues) error {
	if err := r.left.take(int64(rows) * r.leaf.bytes()); err != nil {
		return err
	}
	if r.leaf.maxDef > 0 {
		v.defs = make([]byte, 0, rows)
	}
	if r.leaf.maxRep > 0 {
		v.reps = make([]byte, 0, rows)
	}
	v.dense = make([]byte, 0, rows*max(r.leaf.stored, 1))
	if r.leaf.stored == 0 {
		v.offsets = append(make([]int32, 0, rows+1), 0)
	}
	return nil
}

// span counts the levels of the page up to the end of its rows, of which so many were begun; a row begins with repetition
// level 0.
func (r *leafReader) span(rows, begun int) (int, int) {
	for i, rep := range r.reps[r.level:] {
		if rep > 0 {
			continue
		}
		if begun == rows {
			return i, begun
		}
		begun++
	}
	return r.levels - r.level, begun
}

// take appends the next n levels and their values.
func (r *leafReader) take(n int, v *leafValues) error {
	count := n
	if r.leaf.maxDef > 0 {
		defs := r.defs[r.level : r.level+n]
		v.defs = append(v.defs, defs...)
		count = bytes.Count(defs, []byte{r.leaf.maxDef})
	}
	if r.leaf.maxRep > 0 {
		if err := r.left.take(int64(n) * r.leaf.bytes()); err != nil {
			return err
		}
		v.reps = append(v.reps, r.reps[r.level:r.level+n]...)
	}
	r.level += n
	v.levels += n
	from := r.value
	r.value += count
	v.count += count
	switch {
	case r.index != nil && r.value > len(r.index) || r.index == nil && r.value > r.stored():
		return fmt.Errorf("a page has fewer values than levels: %w", io.ErrUnexpectedEOF)
	case r.index != nil:
		return r.look(r.index[from:r.value], v)
	case r.leaf.stored == 0:
		return r.texts(from, r.value, v)
	case r.leaf.bits:
		for i := from; i < r.value; i++ {
			v.dense = append(v.dense, r.dense[i/8]>>(i%8)&1)
		}
	default:
		v.dense = append(v.dense, r.dense[from*r.leaf.stored:r.value*r.leaf.stored]...)
	}
	return nil
}

// stored is the number of values of the page, or of the dictionary.
func (r *leafReader) stored() int {
	switch {
	case r.leaf.stored == 0:
		return max(len(r.offsets)-1, 0)
	case r.leaf.bits:
		return 8 * len(r.dense)
	}
	return len(r.dense) / r.leaf.stored
}

// texts appends the texts of the page from one on up to another.
func (r *leafReader) texts(from, to int, v *leafValues) error {
	if from == to {
		return nil
	}
	base, end := r.offsets[from], r.offsets[to]
	if base > end || int(end) > len(r.dense) {
		return errors.New("a text ends before it begins, or after the page")
	}
	if len(v.dense)+int(end-base) > math.MaxInt32 {
		return errText
	}
	if err := r.left.take(int64(end - base)); err != nil {
		return err
	}
	at := len(v.dense)
	v.dense = append(v.dense, r.dense[base:end]...)
	last := base
	for _, o := range r.offsets[from+1 : to+1] {
		if o < last || o > end {
			return errors.New("a text ends before it begins")
		}
		last = o
		v.offsets = append(v.offsets, int32(at+int(o-base)))
	}
	return nil
}

// look appends the values of the dictionary at places.
func (r *leafReader) look(places []int32, v *leafValues) error {
	n, width := r.stored(), r.leaf.stored
	if at := slices.IndexFunc(places, func(i int32) bool { return uint(i) >= uint(n) }); at >= 0 {
		return fmt.Errorf("value %d of a dictionary of %d", places[at], n)
	}
	switch {
	case width == 0:
		if err := r.measure(places); err != nil {
			return err
		}
		for _, i := range places {
			if err := r.texts(int(i), int(i)+1, v); err != nil {
				return err
			}
		}
		return nil
	case r.leaf.bits:
		for _, i := range places {
			v.dense = append(v.dense, r.dense[i/8]>>(i%8)&1)
		}
		return nil
	}
	at := len(v.dense)
	v.dense = slices.Grow(v.dense, len(places)*width)[:at+len(places)*width]
	switch dst := v.dense[at:]; width {
	case 4:
		lookUp(arrow.GetData[uint32](dst), arrow.GetData[uint32](r.dense), places)
	case 8:
		lookUp(arrow.GetData[uint64](dst), arrow.GetData[uint64](r.dense), places)
	default:
		for k, i := range places {
			copy(dst[k*width:(k+1)*width], r.dense[int(i)*width:])
		}
	}
	return nil
}

// measure refuses texts that take too much together: a place takes a few bits, and the text that it repeats may be long.
func (r *leafReader) measure(places []int32) error {
	size := int64(0)
	for _, i := range places {
		size += int64(r.offsets[i+1]) - int64(r.offsets[i])
	}
	return r.left.fits(size)
}

func lookUp[T uint32 | uint64](dst, dict []T, places []int32) {
	for k, i := range places {
		dst[k] = dict[i]
	}
}

var (
	errLevels = errors.New("its levels do not agree with its values or with those of its other columns")
	errText   = errors.New("more than 2 GiB of text in one batch: write rows of fewer bytes")
)
