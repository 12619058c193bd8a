package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// loader makes arrays of checked batches by laying the schema over their nodes and buffers. The
// Arrow library's own reader copies every body twice; here an array is a view of the message.
type loader struct {
	guard  *ipcguard.Stream
	schema *arrow.Schema
	codecs *codecs
	dicts  map[int64]*dictionary
	budget int64
	mem    *cappedAllocator

	batch                  *ipcguard.Batch
	node, buffer, variadic int // next ones of batch
	err                    error
}

// newLoader returns a loader of the batches that guard checks. What it decompresses and joins
// takes at most budget bytes together.
func newLoader(guard *ipcguard.Stream, schema *arrow.Schema, c *codecs, budget int64) *loader {
	return &loader{
		guard: guard, schema: schema, codecs: c,
		dicts: map[int64]*dictionary{}, budget: budget, mem: &cappedAllocator{left: budget},
	}
}

// fail keeps the first error.
func (l *loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// record loads and validates a record batch.
func (l *loader) record(b *ipcguard.Batch) (arrow.Record, error) {
	l.begin(b)
	fields := l.guard.Schema().Fields
	cols := make([]arrow.Array, len(fields))
	for i := range fields {
		data := l.load(&fields[i], l.schema.Field(i).Type)
		if l.err != nil {
			return nil, l.err
		}
		if err := l.guard.Validate(data, &fields[i]); err != nil {
			return nil, err
		}
		cols[i] = array.MakeFromData(data)
	}
	return array.NewRecord(l.schema, cols, b.Rows), nil
}

// begin makes b the batch that load reads.
func (l *loader) begin(b *ipcguard.Batch) {
	if !unalignedReads && len(b.Body) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b.Body)))%8 != 0 {
		aligned := make([]byte, len(b.Body))
		copy(aligned, b.Body)
		b.Body = aligned
	}
	l.batch, l.node, l.buffer, l.variadic, l.err = b, 0, 0, 0, nil
}

// unalignedReads: a value begins anywhere within a fetched batch, so its numbers stand at odd
// addresses; these architectures read them there.
const unalignedReads = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "ppc64le" || runtime.GOARCH == "s390x"

// arrayBytes is about what the objects of one array take: columns cost memory even without rows,
// eight times what they take in a message.
const arrayBytes = 512

// load takes the next array of the batch. The guard has checked that all it takes is there.
func (l *loader) load(f *ipcguard.Field, dt arrow.DataType) *array.Data {
	if ext, ok := dt.(arrow.ExtensionType); ok {
		d := l.load(f, ext.StorageType())
		dict, _ := d.Dictionary().(*array.Data)
		if dict != nil {
			return array.NewDataWithDictionary(dt, d.Len(), d.Buffers(), d.NullN(), 0, dict)
		}
		return array.NewData(dt, d.Len(), d.Buffers(), d.Children(), d.NullN(), 0)
	}
	n := l.batch.Nodes[l.node]
	l.node++
	if l.mem.left -= arrayBytes; l.mem.left < 0 {
		l.fail(errorf(CodeArrowTooLarge, "too many columns in too many batches; send one batch per message"))
	}
	length := int(n.Len)
	if f.Dict != nil {
		bitmap, nulls := l.validity(n)
		return array.NewDataWithDictionary(dt, length, []*memory.Buffer{bitmap, l.take()}, nulls, 0, l.values(f))
	}
	switch f.Kind {
	case ipcguard.Null:
		return array.NewData(dt, length, nil, nil, length, 0)
	case ipcguard.RunEndEncoded:
		return array.NewData(dt, length, []*memory.Buffer{nil}, l.children(f, dt), 0, 0)
	case ipcguard.Union:
		buffers := []*memory.Buffer{nil, l.take()}
		if f.Dense {
			buffers = append(buffers, l.take())
		}
		return array.NewData(dt, length, buffers, l.children(f, dt), 0, 0)
	}
	bitmap, nulls := l.validity(n)
	after := l.after(f)
	buffers := append(make([]*memory.Buffer, 0, 1+after), bitmap)
	for range after {
		buffers = append(buffers, l.take())
	}
	return array.NewData(dt, length, buffers, l.children(f, dt), nulls, 0)
}

// after is the number of buffers that an array with a validity bitmap has after it.
func (l *loader) after(f *ipcguard.Field) int {
	switch f.Kind {
	case ipcguard.Struct, ipcguard.FixedSizeList:
		return 0
	case ipcguard.Binary, ipcguard.Utf8, ipcguard.LargeBinary, ipcguard.LargeUtf8, ipcguard.ListView, ipcguard.LargeListView:
		return 2
	case ipcguard.BinaryView, ipcguard.Utf8View:
		l.variadic++
		return 1 + int(l.batch.Variadic[l.variadic-1])
	}
	return 1
}

func (l *loader) children(f *ipcguard.Field, dt arrow.DataType) []arrow.ArrayData {
	if len(f.Children) == 0 {
		return nil
	}
	fields := dt.(arrow.NestedType).Fields()
	children := make([]arrow.ArrayData, len(f.Children))
	for i := range children {
		children[i] = l.load(&f.Children[i], fields[i].Type)
	}
	return children
}

// validity takes the bitmap of nulls, and counts them where the writer did not.
func (l *loader) validity(n ipcguard.Node) (*memory.Buffer, int) {
	if n.Nulls == 0 {
		l.buffer++ // the bitmap, if any, has no meaning
		return nil, 0
	}
	bitmap := l.take()
	switch {
	case n.Nulls < 0 && l.err == nil:
		return bitmap, ipcguard.CountNulls(bitmap.Bytes(), int(n.Len))
	}
	return bitmap, int(n.Nulls)
}

// storedPlain reports whether a buffer of a compressed batch is not compressed: its length is −1.
func storedPlain(b []byte) bool { return int64(binary.LittleEndian.Uint64(b)) == -1 }

// take takes the next buffer, decompressed. Its capacity ends where it does: the Arrow library
// reaches for capacity in places, and must not find the bytes of another buffer there.
func (l *loader) take() *memory.Buffer {
	b := l.batch.Buffers[l.buffer]
	l.buffer++
	end := b.Offset + b.Length
	stored := l.batch.Body[b.Offset:end:end]
	switch {
	case l.batch.Codec == ipcguard.Uncompressed || len(stored) == 0:
	case storedPlain(stored):
		stored = stored[8:]
	default:
		stored = l.decompress(stored[8:], int(b.Decoded))
	}
	return memory.NewBufferBytes(stored)
}

func (l *loader) decompress(src []byte, size int) []byte {
	if l.err != nil {
		return nil
	}
	if int64(size) > l.mem.left {
		l.fail(errorf(CodeArrowTooLarge, "more than %d bytes once decompressed; send fewer rows per message", l.budget))
		return nil
	}
	var dst []byte
	var err error
	if size > trustedSize {
		l.mem.left -= int64(size)
		dst, err = l.codecs.grow(l.batch.Codec, src, size)
	} else {
		dst = l.mem.Allocate(size)
		err = l.codecs.decompress(l.batch.Codec, dst, src)
	}
	if err != nil {
		l.fail(errorf(CodeArrowInvalid, "buffer %d: %w", l.buffer-1, err))
		return nil
	}
	return dst
}

// trustedSize is the largest length that a compressed buffer is believed before its bytes come.
// Only buffers of files may be longer.
const trustedSize = 64 << 20

// dictionary is what came of one dictionary so far: its values, and additions not yet joined.
type dictionary struct {
	parts []arrow.Array
}

// dictionary loads and validates a dictionary batch. It belongs to this stream alone: the next
// message brings its own.
func (l *loader) dictionary(b *ipcguard.Batch) error {
	l.begin(b)
	schema := l.guard.Schema()
	typ := valueType(schema.Fields, l.schema.Fields(), b.Dict)
	if typ == nil {
		return errorf(CodeArrowUnsupported, "dictionary %d has values of a type that is not read", b.Dict)
	}
	plain := *schema.Value(b.Dict)
	plain.Dict = nil // the values themselves
	stored := storedType(&plain, typ)
	data := l.load(&plain, stored)
	if l.err != nil {
		return l.err
	}
	if err := l.guard.Validate(data, &plain); err != nil {
		return err
	}
	if stored != typ {
		if data = l.plain(data, typ); l.err != nil {
			return l.err
		}
	}
	values := array.MakeFromData(data)
	if old := l.dicts[b.Dict]; b.Delta && old != nil {
		old.parts = append(old.parts, values)
		return nil
	}
	l.dicts[b.Dict] = &dictionary{parts: []arrow.Array{values}}
	return nil
}

// values returns the dictionary of f as it stands, joining additions first.
func (l *loader) values(f *ipcguard.Field) *array.Data {
	d := l.dicts[f.Dict.ID]
	if d == nil {
		l.fail(errorf(CodeArrowInvalid, "column %s: its dictionary %d did not come before it", f.Path, f.Dict.ID))
		return nil
	}
	if len(d.parts) > 1 {
		whole, err := array.Concatenate(d.parts, l.mem)
		switch {
		case errors.Is(err, errBudget):
			l.fail(errorf(CodeArrowTooLarge, "column %s: additions to its dictionary take more than %d bytes", f.Path, l.budget))
			return nil
		case err != nil:
			l.fail(errorf(CodeArrowUnsupported, "column %s: joining its dictionary: %w; send it whole", f.Path, err))
			return nil
		}
		d.parts = []arrow.Array{whole}
	}
	return d.parts[0].Data().(*array.Data)
}

// valueType finds the type of the values of dictionary id, walking the checked fields and the
// Arrow fields side by side; nil if there is none.
func valueType(fields []ipcguard.Field, types []arrow.Field, id int64) arrow.DataType {
	for i := range fields {
		f, dt := &fields[i], types[i].Type
		if ext, ok := dt.(arrow.ExtensionType); ok {
			dt = ext.StorageType()
		}
		if enc, ok := dt.(*arrow.DictionaryType); ok && f.Dict != nil {
			if dt = enc.ValueType; f.Dict.ID == id {
				return dt
			}
		}
		if len(f.Children) == 0 {
			continue
		}
		if found := valueType(f.Children, dt.(arrow.NestedType).Fields(), id); found != nil {
			return found
		}
	}
	return nil
}

// codecs decompresses the buffers of batches, each into exactly the bytes it announced. It starts
// no goroutines. The zero value is ready and may be used by several goroutines at once.
type codecs struct {
	lz4  sync.Pool // *lz4.Reader
	once sync.Once
	zstd *zstd.Decoder
	err  error
}

// errLength is a buffer that holds more than it says.
var errLength = errors.New("more bytes than it announces")

// decompress fills dst from src; it is an error if src holds less or more.
func (c *codecs) decompress(codec ipcguard.Codec, dst, src []byte) (err error) {
	if codec == ipcguard.Zstd {
		err = c.fromZstd(dst, src)
	} else {
		err = c.fromLZ4(dst, src)
	}
	if err != nil {
		return fmt.Errorf("decompressing %d bytes to %d: %w", len(src), len(dst), err)
	}
	return nil
}

func (c *codecs) fromLZ4(dst, src []byte) error {
	r, _ := c.lz4.Get().(*lz4.Reader)
	if r == nil {
		r = lz4.NewReader(nil)
	}
	defer c.lz4.Put(r)
	r.Reset(bytes.NewReader(src))
	if _, err := io.ReadFull(r, dst); err != nil {
		return err
	}
	var more [1]byte
	switch n, err := r.Read(more[:]); {
	case n > 0:
		return errLength
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

func (c *codecs) fromZstd(dst, src []byte) error {
	n, err := c.zstdInto(dst, src)
	if err == nil && n < len(dst) {
		err = fmt.Errorf("%d bytes, %w", n, io.ErrUnexpectedEOF)
	}
	return err
}

// zstdInto decompresses to dst, and returns the number of bytes.
func (c *codecs) zstdInto(dst, src []byte) (int, error) {
	c.once.Do(func() {
		c.zstd, c.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecodeAllCapLimit(true))
	})
	if c.err != nil {
		return 0, c.err
	}
	out, err := c.zstd.DecodeAll(src, dst[:0:len(dst)])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errLength
	}
	return len(out), err
}

// grow is decompress for a size too large to be believed: memory grows with the bytes that come.
func (c *codecs) grow(codec ipcguard.Codec, src []byte, size int) ([]byte, error) {
	var r io.Reader = lz4.NewReader(bytes.NewReader(src))
	if codec == ipcguard.Zstd {
		z, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, int64(size)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompressing %d bytes to %d: %w", len(src), size, err)
	case n > int64(size):
		return nil, errLength
	case n < int64(size):
		return nil, fmt.Errorf("%d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	return b.Bytes(), nil
}

// bodies is memory for messages. New memory costs as much as reading into it, because it is cleared, and because it is in no cache.
type bodies struct {
	again bool // batches take turns in the same memory
	last  []byte
}

// take returns memory for a message. Dictionaries keep theirs.
func (b *bodies) take(kind ipcguard.MessageKind, n int64) []byte {
	if !b.again || kind != ipcguard.BatchMessage {
		return make([]byte, n)
	}
	if int64(cap(b.last)) < n {
		b.last = make([]byte, n)
	}
	return b.last[:n:n]
}
