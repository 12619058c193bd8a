package modelkey

import (
	"strconv"
	"strings"
)

const hexadecimal = "0123456789ABCDEF"

// ID returns the id of a model: <base>/<partition>/<value>, with the bytes of the value percent-encoded in upper case
// except for A-Z, a-z, 0-9, _ and -. A value need not be UTF-8.
func ID(base string, partition int32, value []byte) string {
	b := make([]byte, 0, len(base)+16+len(value))
	b = append(append(b, base...), '/')
	b = append(strconv.AppendInt(b, int64(partition), 10), '/')
	for _, c := range value {
		if plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hexadecimal[c>>4], hexadecimal[c&15])
		}
	}
	return string(b)
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// Split is the inverse of ID. An id is read from the right, because a base may have slashes. It returns false for
// text that ID does not return.
func Split(id string) (base string, partition int32, value []byte, ok bool) {
	rest, encoded, found := CutLast(id)
	if !found {
		return "", 0, nil, false
	}
	base, number, found := CutLast(rest)
	n, err := strconv.ParseInt(number, 10, 32)
	if !found || err != nil || n < 0 {
		return "", 0, nil, false
	}
	if value, ok = decode(encoded); !ok || ID(base, int32(n), value) != id {
		return "", 0, nil, false
	}
	return base, int32(n), value, true
}

// CutLast divides an id, or the key of a record, at its last slash: they are read from the right, because a base may have slashes of its own.
func CutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '/')
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+1:], true
}

func decode(text string) (value []byte, ok bool) {
	value = make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			value = append(value, text[i])
			continue
		}
		if i+2 >= len(text) {
			return nil, false
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return nil, false
		}
		value = append(value, byte(c))
		i += 2
	}
	return value, true
}
