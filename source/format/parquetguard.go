package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
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
