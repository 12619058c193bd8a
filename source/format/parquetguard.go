package format

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"slices"
	"unsafe"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// pageGuard walks over the pages of a column chunk ahead of the library, and measures what it would make of them. A page's header says
// how many bytes it has once it is decompressed, and how many values; but runs of one value, lengths that are encoded as differences, and texts that
// repeat the beginning of the one before take a few bytes for any number of values, and the library believes them.
//
//	header                 bytes and values are within what a batch may take, and the bytes are in the file
//	compressed bytes       decode to no more than the header says (boundedCodec)
//	runs, differences      have no more values than the header says
//	texts of prefixes      are within what a batch may take together
type pageGuard struct {
	f    io.ReaderAt
	leaf *parquetLeaf
	most int64 // bytes of a page, in all forms that are in memory at a time

	at, end    int64
	compressed bool
	page       format.PageHeader // the page that the library decodes next
	dictionary dictionaryState   // of the chunk
	head, body []byte
}

// dictionaryState says how far the library is with a dictionary: it decompresses the first of a chunk before the next page with values.
type dictionaryState int

// plainDictionary is PLAIN_DICTIONARY, which writers of format 1 name and no new one should.
const plainDictionary = format.Encoding(2)

const (
	noDictionary dictionaryState = iota
	comes
	hasCome
)

// enter goes to the first page of a chunk.
func (g *pageGuard) enter(m *format.ColumnMetaData) error {
	g.at = m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		g.at = m.DictionaryPageOffset
	}
	g.dictionary = noDictionary
	g.end, g.compressed = g.at+m.TotalCompressedSize, m.Codec != format.Uncompressed
	if g.at < 0 || g.end < g.at {
		return errors.New("its pages begin or end outside of the file")
	}
	return nil
}

// next measures the next page with values, and a dictionary before it.
func (g *pageGuard) next() error {
	for g.at < g.end {
		n, err := g.header()
		if err != nil {
			return err
		}
		body := g.at + int64(n)
		if err := g.sizes(g.end - body); err != nil {
			return err
		}
		g.at = body + int64(g.page.CompressedPageSize)
		if g.page.Type != format.DictionaryPage {
			return g.stored(body)
		}
		if h := g.page.DictionaryPageHeader; h.Valid && h.V.Encoding != format.Plain && h.V.Encoding != plainDictionary {
			return fmt.Errorf("a dictionary encoded as %v", h.V.Encoding)
		}
		if g.dictionary == noDictionary && g.compressed {
			g.dictionary = comes
		}
	}
	return nil // at the end the library says so
}

// header reads the header of the next page and returns its length.
func (g *pageGuard) header() (int, error) {
	const first, most = 1 << 10, 16 << 20 // it has the least and the greatest value of its page
	var protocol thrift.CompactProtocol
	for size := int64(first); ; size *= 8 {
		size = min(size, g.end-g.at)
		if int64(cap(g.head)) < size {
			g.head = make([]byte, size)
		}
		n, err := g.f.ReadAt(g.head[:size], g.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		length, err := thriftLength(g.head[:n])
		switch {
		case err == nil:
			g.page = format.PageHeader{}
			return length, thrift.NewDecoder(protocol.NewReaderFromBytes(g.head[:length])).Decode(&g.page)
		case size == g.end-g.at || size >= most || int64(n) < size:
			return 0, fmt.Errorf("the header of a page: %w", err)
		}
	}
}

// values is the number of values, nulls included, that the header says.
func (g *pageGuard) values() int64 {
	switch h := &g.page; {
	case h.DataPageHeader.Valid:
		return int64(h.DataPageHeader.V.NumValues)
	case h.DataPageHeaderV2.Valid:
		return int64(h.DataPageHeaderV2.V.NumValues)
	case h.DictionaryPageHeader.Valid:
		return int64(h.DictionaryPageHeader.V.NumValues)
	}
	return 0
}

// sizes measures what the header says.
func (g *pageGuard) sizes(left int64) error {
	compressed, plain, n := int64(g.page.CompressedPageSize), int64(g.page.UncompressedPageSize), g.values()
	if compressed < 0 || plain < 0 || n < 0 || compressed > left {
		return fmt.Errorf("a page of %d bytes, %d once decompressed, with %d values, where %d bytes are left", compressed, plain, n, left)
	}
	if size := compressed + plain + n*g.leaf.bytes(); size > g.most {
		return fmt.Errorf("a page of %d bytes with %d values takes %d in memory, at most %d are read (half of memory.limit): raise memory.limit, or write smaller pages", compressed, n, size, g.most)
	}
	return nil
}

// stored measures what is in the file as it is decoded; what is compressed is measured by boundedCodec.
func (g *pageGuard) stored(body int64) error {
	v2 := g.page.DataPageHeaderV2
	levels := int64(0)
	if v2.Valid {
		levels = int64(v2.V.RepetitionLevelsByteLength) + int64(v2.V.DefinitionLevelsByteLength)
	}
	plain := !g.compressed || v2.Valid && v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V
	size := levels
	if plain {
		size = int64(g.page.CompressedPageSize)
	}
	if size < levels || size > int64(g.page.CompressedPageSize) || v2.V.RepetitionLevelsByteLength < 0 || v2.V.DefinitionLevelsByteLength < 0 {
		return errLevels
	}
	if size == 0 || plain && g.isPlain() && !v2.Valid && g.leaf.maxDef == 0 {
		return nil
	}
	g.body = slices.Grow(g.body[:0], int(size))
	b := g.body[:size]
	if _, err := g.f.ReadAt(b, body); err != nil {
		return fmt.Errorf("a page: %w", io.ErrUnexpectedEOF)
	}
	if v2.Valid {
		reps := v2.V.RepetitionLevelsByteLength
		if err := errors.Join(g.runs(b[:reps], g.leaf.maxRep), g.runs(b[reps:levels], g.leaf.maxDef)); err != nil {
			return err
		}
	}
	if !plain {
		return nil
	}
	return g.content(b[levels:])
}

// encoding is that of the values.
func (g *pageGuard) encoding() format.Encoding {
	if h := &g.page.DataPageHeader; h.Valid {
		return h.V.Encoding
	}
	return g.page.DataPageHeaderV2.V.Encoding
}

// isPlain reports whether the values take their bytes.
func (g *pageGuard) isPlain() bool {
	return g.encoding() == format.Plain || g.encoding() == format.ByteStreamSplit
}

// decoded measures a page that was decompressed.
func (g *pageGuard) decoded(b []byte) error {
	if g.dictionary == comes {
		g.dictionary = hasCome
		return nil // its values are plain
	}
	return g.content(b)
}

// content measures a page's bytes: of the older pages levels and values, of others values.
func (g *pageGuard) content(b []byte) error {
	if h := &g.page.DataPageHeader; h.Valid {
		for _, l := range []struct {
			most byte
			as   format.Encoding
		}{{g.leaf.maxRep, h.V.RepetitionLevelEncoding}, {g.leaf.maxDef, h.V.DefinitionLevelEncoding}} {
			if l.most == 0 {
				continue
			}
			if len(b) < 4 || int64(binary.LittleEndian.Uint32(b)) > int64(len(b)-4) {
				return errLevels
			}
			n := 4 + int(binary.LittleEndian.Uint32(b))
			if l.as == format.RLE {
				if err := g.runs(b[4:n], l.most); err != nil {
					return err
				}
			}
			b = b[n:]
		}
	}
	switch e := g.encoding(); {
	case e == plainDictionary || e == format.RLEDictionary:
		if len(b) == 0 {
			return nil
		}
		return g.widthRuns(b[1:], uint64(b[0]))
	case e == format.RLE && g.leaf.bits:
		if len(b) < 4 {
			return errRuns
		}
		return g.widthRuns(b[4:], 1)
	case e == format.DeltaBinaryPacked, e == format.DeltaLengthByteArray:
		_, err := deltas(b, g.values(), nil)
		return err
	case e == format.DeltaByteArray:
		return g.prefixes(b)
	}
	return nil
}

// prefixes measures texts that begin as the one before.
func (g *pageGuard) prefixes(b []byte) error {
	size := int64(0)
	add := func(n int64) { size += max(n, 0) }
	rest, err := deltas(b, g.values(), add)
	if err == nil {
		_, err = deltas(rest, g.values(), add)
	}
	if err == nil && size > g.most {
		err = fmt.Errorf("a page with %d bytes of text, at most %d are read (half of memory.limit): raise memory.limit, or write smaller pages", size, g.most)
	}
	return err
}

// boundedCodec decompresses the pages of a column to the memory that is there, which has the size that the page's header announces, and measures what
// they hold before the library decodes it. The library's own codecs take as much memory as the bytes ask for. And its LZ4_RAW decodes into memory of
// its own where a page shrank to more than a third: parquet-go v0.32.0 then reads the memory that it had given to the codec, with whatever an
// earlier page has left there: other numbers than the file's, without an error.
type boundedCodec struct {
	compress.Codec
	guard *pageGuard
	*codecs
}

// decodes makes a column use the guard's codec. The library has no other way to choose one.
func (g *pageGuard) decodes(c *parquet.Column, shared *codecs) error {
	codec := c.Compression()
	if codec == nil || codec.CompressionCodec() == format.Uncompressed {
		return nil
	}
	field := reflect.ValueOf(c).Elem().FieldByName("compression")
	if !field.IsValid() || field.Type() != reflect.TypeFor[compress.Codec]() {
		return fmt.Errorf("it is compressed with %v, which is not read here: write it without compression", codec)
	}
	*(*compress.Codec)(unsafe.Pointer(field.UnsafeAddr())) = &boundedCodec{codec, g, shared}
	return nil
}

// Decode writes a page to dst.
func (c *boundedCodec) Decode(dst, src []byte) ([]byte, error) {
	n, err := c.fill(dst, src)
	if err != nil {
		return nil, err
	}
	return dst[:n], c.guard.decoded(dst[:n])
}

func (c *boundedCodec) fill(dst, src []byte) (int, error) {
	switch as := c.CompressionCodec(); as {
	case format.Lz4Raw:
		return lz4.UncompressBlock(src, dst)
	case format.Snappy:
		n, err := snappy.DecodedLen(src)
		if err != nil || n > len(dst) {
			return 0, errors.Join(err, errLength)
		}
		out, err := snappy.Decode(dst, src)
		return len(out), err
	case format.Zstd:
		return c.zstdInto(dst, src)
	case format.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return 0, err
		}
		return fillFrom(dst, r)
	case format.Brotli:
		return fillFrom(dst, brotli.NewReader(bytes.NewReader(src)))
	default:
		return 0, fmt.Errorf("it is compressed with %v, which is not read here: write it with zstd or snappy", as)
	}
}

// fillFrom reads all that there is, which must not be more than there is room for.
func fillFrom(dst []byte, r io.Reader) (n int, err error) {
	n, err = io.ReadFull(r, dst)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	if more, err := r.Read(make([]byte, 1)); more > 0 || !errors.Is(err, io.EOF) {
		return n, errors.Join(errLength, err)
	}
	return n, nil
}

var (
	errRuns   = errors.New("its runs of values do not agree with its header")
	errDeltas = errors.New("its differences do not agree with its header")
)

// runs measures levels up to one.
func (g *pageGuard) runs(b []byte, most byte) error {
	if most == 0 {
		return nil
	}
	return g.widthRuns(b, uint64(bits.Len8(most)))
}

// widthRuns measures values that are stored as runs of one value, and as packed groups of eight.
func (g *pageGuard) widthRuns(b []byte, width uint64) error {
	const padding = 1 << 10 // of the last group
	most, count := uint64(g.values())+padding, uint64(0)
	for len(b) > 0 {
		u, n := binary.Uvarint(b)
		if n <= 0 || width > 32 {
			return errRuns
		}
		b = b[n:]
		run, size := u>>1, (width+7)/8
		if u&1 == 1 {
			run, size = u>>1*8, u>>1*width
		}
		if count += run; count > most || u>>1 > most {
			return fmt.Errorf("%w: a page of %d values has runs of %d or more", errRuns, g.values(), count)
		}
		b = b[min(size, uint64(len(b))):]
	}
	return nil
}

// deltas walks over integers that are stored as differences: at most so many. With each it decodes them. It returns what follows.
//
//	header   block size, miniblocks of a block, number of integers; the first integer (varints, the last one zigzag)
//	block    least difference (zigzag varint), a width for each miniblock, and the miniblocks
func deltas(b []byte, most int64, each func(int64)) (rest []byte, err error) {
	number := func() uint64 {
		u, n := binary.Uvarint(b)
		if n <= 0 {
			err = errDeltas
			return 0
		}
		b = b[n:]
		return u
	}
	zigzag := func() int64 { u := number(); return int64(u>>1) ^ -int64(u&1) }
	block, minis, total, value := number(), number(), number(), zigzag()
	if err != nil || total > uint64(most) || minis == 0 || block > 1<<20 || block/minis%8 != 0 || block/minis == 0 {
		return nil, errDeltas
	}
	if total > 0 && each != nil {
		each(value)
	}
	for left := int64(total) - 1; left > 0; {
		least := zigzag()
		if err != nil || uint64(len(b)) < minis {
			return nil, errDeltas
		}
		widths := b[:minis]
		b = b[minis:]
		for _, width := range widths {
			if left <= 0 {
				break
			}
			size := int(block / minis * uint64(width) / 8)
			if width > 64 {
				return nil, errDeltas
			}
			mini := b[:min(size, len(b))] // the last one may be cut
			b = b[len(mini):]
			n := min(left, int64(block/minis))
			left -= n
			for i := 0; i < int(n) && each != nil; i++ {
				value += least + int64(packed(mini, i*int(width), int(width)))
				each(value)
			}
		}
	}
	return b, nil
}

// packed is the number of a width at a bit; bits that are missing are 0.
func packed(b []byte, at, width int) (v uint64) {
	for i := 0; i < width; {
		k := (at + i) / 8
		if k >= len(b) {
			break
		}
		skip := (at + i) % 8
		v |= uint64(b[k]>>skip) << i
		i += 8 - skip
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v
}

// What a Parquet file says of itself is Thrift in its compact protocol. The library makes lists and texts of the size that they say they have, and
// reads what is nested by calling itself, so that a few bytes would end the process.

const (
	thriftDepth   = 32  // of structs and lists in one another
	thriftElement = 512 // about what an element of a list takes in memory
)

var errThrift = errors.New("its metadata is broken, or nested too deeply")

// checkFooter measures the metadata at the end of a file.
func checkFooter(f io.ReaderAt, size, most int64) error {
	const tail = 8 // length and mark
	if size < tail {
		return io.ErrUnexpectedEOF
	}
	b := make([]byte, tail)
	if _, err := f.ReadAt(b, size-tail); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n > size-tail {
		return fmt.Errorf("metadata of %d bytes in a file of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	if n > most {
		return fmt.Errorf("metadata of %d bytes, at most %d are read (half of memory.limit): raise memory.limit, or write larger row groups", n, most)
	}
	b = make([]byte, n)
	if _, err := f.ReadAt(b, size-tail-n); err != nil {
		return err
	}
	w := thriftWalk{b: b}
	if w.fields(0); w.bad {
		return errThrift
	}
	if takes := w.elements * thriftElement; takes > most {
		return fmt.Errorf("metadata of %d columns and row groups takes about %d bytes in memory, at most %d are read (half of memory.limit): raise memory.limit, or write larger row groups", w.elements, takes, most)
	}
	return nil
}

// thriftLength is the length of the struct that b begins with.
func thriftLength(b []byte) (int, error) {
	w := thriftWalk{b: b}
	if w.fields(0); w.bad {
		return 0, errThrift
	}
	return len(b) - len(w.b), nil
}

// thriftWalk walks over a struct.
type thriftWalk struct {
	b        []byte // what follows
	elements int64  // of all lists
	bad      bool
}

// The types of Thrift that have a size.
const (
	thriftStop, thriftTrue, thriftFalse, thriftByte = 0, 1, 2, 3
	thriftI64, thriftDouble, thriftBinary           = 6, 7, 8
	thriftList, thriftSet, thriftMap, thriftStruct  = 9, 10, 11, 12
)

// fields walks over the fields of a struct.
func (w *thriftWalk) fields(depth int) {
	for !w.bad {
		head := w.byte()
		if head == thriftStop {
			return
		}
		if head>>4 == 0 { // the field's number follows
			w.number()
		}
		if t := head & 15; t != thriftTrue && t != thriftFalse {
			w.value(t, depth)
		}
	}
}

func (w *thriftWalk) value(t byte, depth int) {
	if w.bad = w.bad || depth > thriftDepth; w.bad {
		return
	}
	switch {
	case t >= thriftTrue && t <= thriftByte:
		w.byte()
	case t > thriftByte && t <= thriftI64:
		w.number()
	case t == thriftDouble:
		w.skip(8)
	case t == thriftBinary:
		w.skip(w.number())
	case t == thriftList || t == thriftSet:
		w.list(depth)
	case t == thriftMap:
		if n := w.number(); n > 0 {
			types := w.byte()
			for ; n > 0 && !w.bad; n-- {
				w.value(types>>4, depth+1)
				w.value(types&15, depth+1)
			}
		}
	case t == thriftStruct:
		w.fields(depth + 1)
	default:
		w.bad = true
	}
}

func (w *thriftWalk) list(depth int) {
	head := w.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = w.number()
	}
	if n > uint64(len(w.b)) { // each takes a byte at least
		w.bad = true
		return
	}
	w.elements += int64(n)
	for ; n > 0 && !w.bad; n-- {
		w.value(head&15, depth+1)
	}
}

func (w *thriftWalk) byte() byte {
	if len(w.b) == 0 {
		w.bad = true
		return thriftStop
	}
	b := w.b[0]
	w.b = w.b[1:]
	return b
}

func (w *thriftWalk) number() uint64 {
	u, n := binary.Uvarint(w.b)
	if n <= 0 {
		w.bad = true
		return 0
	}
	w.b = w.b[n:]
	return u
}

func (w *thriftWalk) skip(n uint64) {
	if n > uint64(len(w.b)) {
		w.bad = true
		return
	}
	w.b = w.b[n:]
}

// budget is what a batch of a file may still take.
type budget struct {
	left, most int64
	rows       int
}

// take takes memory for values.
func (b *budget) take(bytes int64) error {
	if err := b.fits(bytes); err != nil {
		return err
	}
	b.left -= bytes
	return nil
}

// fits refuses what there is no room for.
func (b *budget) fits(bytes int64) error {
	if bytes < 0 || bytes > b.left {
		return fmt.Errorf("%d rows take %d bytes or more once they are read, at most %d are (half of memory.limit): raise memory.limit, or write rows of fewer bytes", b.rows, b.most-b.left+bytes, b.most)
	}
	return nil
}
