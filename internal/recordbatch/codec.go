package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec is the compression of a batch's records.
type codec uint16

const (
	codecNone codec = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

func (c codec) String() string {
	names := [...]string{"none", "gzip", "snappy", "lz4", "zstd"}
	switch {
	case c == ZstdQuick:
		return "zstd of long matches"
	case int(c) < len(names):
		return names[c]
	}
	return fmt.Sprintf("codec %d", uint16(c))
}

// Codecs are decompressors that any number of decoders share, because they are expensive to make and large: lz4 has
// blocks of 4 MiB. Only some of them are kept.
type Codecs struct{ spare chan *codecs }

// NewCodecs returns decompressors, and keeps enough for that number of goroutines.
func NewCodecs(goroutines int) *Codecs { return &Codecs{spare: make(chan *codecs, goroutines)} }

// decompress returns src decompressed, in a buffer of its own unless c is codecNone. It never
// allocates much more than limit bytes, whatever src claims.
func (p *Codecs) decompress(src []byte, c codec, limit int) ([]byte, error) {
	if c == codecNone && len(src) <= limit {
		return src, nil
	}
	var s *codecs
	select {
	case s = <-p.spare:
	default:
		s = new(codecs)
	}
	defer func() {
		select {
		case p.spare <- s:
		default:
		}
	}()
	return s.decompress(src, c, limit)
}

// codecs are the decompressors that one goroutine uses at a time. The zero value makes them when they are needed.
type codecs struct {
	gzip *gzip.Reader
	lz4  *lz4.Reader
	zstd *zstd.Decoder
	most int // upper bound of zstd's output
}

func (s *codecs) decompress(src []byte, c codec, limit int) ([]byte, error) {
	if len(src) > limit {
		return nil, tooLarge(limit)
	}
	var out []byte
	var err error
	switch c {
	case codecGzip:
		out, err = s.gunzip(src, limit)
	case codecSnappy:
		out, err = unsnappy(src, limit)
	case codecLZ4:
		out, err = s.unlz4(src, limit)
	case codecZstd:
		out, err = s.unzstd(src, limit)
	default:
		return nil, fmt.Errorf("%w: %s", ErrUnsupported, c)
	}
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, c, err)
	}
	return out, err
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: its records decompress to more than %d bytes", ErrTooLarge, limit)
}

func (s *codecs) gunzip(src []byte, limit int) ([]byte, error) {
	if s.gzip == nil {
		s.gzip = new(gzip.Reader)
	}
	if err := s.gzip.Reset(bytes.NewReader(src)); err != nil {
		return nil, err
	}
	return readLimited(s.gzip, 4*len(src), limit)
}

func (s *codecs) unlz4(src []byte, limit int) ([]byte, error) {
	if s.lz4 == nil {
		s.lz4 = lz4.NewReader(nil)
	}
	s.lz4.Reset(bytes.NewReader(src))
	return readLimited(s.lz4, 4*len(src), limit)
}

func (s *codecs) unzstd(src []byte, limit int) ([]byte, error) {
	window, exact := windowOf(limit)
	if s.zstd == nil || s.most != exact {
		if s.zstd != nil {
			s.zstd.Close()
		}
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(exact)))
		if err != nil {
			return nil, err
		}
		s.zstd, s.most = d, exact
	}
	src, narrow, err := narrowed(src, window, exact)
	if err != nil {
		return nil, err
	}
	out, err := s.zstd.DecodeAll(src, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), err == nil && len(out) > limit:
		return nil, tooLarge(limit)
	case err != nil && narrow && !errors.Is(err, io.ErrUnexpectedEOF): // what reaches beyond a narrowed window lies beyond the limit, unless it is damaged
		return nil, fmt.Errorf("%w, or are damaged: %w", tooLarge(limit), err)
	}
	return out, err
}

// readLimited reads r to its end into a buffer that grows as data comes.
func readLimited(r io.Reader, guess, limit int) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, min(guess, limit)+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(r, int64(limit)+1)); err != nil {
		return nil, err
	}
	if buf.Len() > limit {
		return nil, tooLarge(limit)
	}
	return buf.Bytes(), nil
}

const (
	// Java producers frame snappy as xerial's SnappyOutputStream does: this magic, two int32
	// versions, then blocks, each after its int32 length. Others write one bare block.
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = len(xerialMagic) + 8

	// snappyRatio bounds what a snappy block can claim: three bytes copy at most 64.
	snappyRatio = 22
)

func unsnappy(src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		return unsnappyBlock(nil, src, limit)
	}
	if len(src) < xerialHeaderSize {
		return nil, io.ErrUnexpectedEOF
	}
	var out []byte
	for src = src[xerialHeaderSize:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(src))
		if src = src[4:]; n > int64(len(src)) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = unsnappyBlock(out, src[:n], limit); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return out, nil
}

// unsnappyBlock appends one block, decompressed, to dst.
func unsnappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > snappyRatio*len(block) {
		return nil, snappy.ErrCorrupt
	}
	if n > limit-len(dst) {
		return nil, tooLarge(limit)
	}
	if cap(dst)-len(dst) < n {
		dst = append(make([]byte, 0, max(2*cap(dst), len(dst)+n)), dst...)
	}
	end := len(dst) + n
	if _, err = snappy.Decode(dst[len(dst):end:end], block); err != nil {
		return nil, err
	}
	return dst[:end], nil
}
