package jsontext

import "iter"

// Member is a member of an object, or an element of an array.
type Member struct {
	Key      []byte // with its quotes; nil for an element
	From, To int    // place of the value, and of what comes behind it
}

// Members returns what the object or array that begins at a place of the text holds, in order. The text is valid JSON; NaN and Infinity may
// stand for numbers.
func Members(text []byte, at int) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		object, i := text[at] == '{', at+1
		for {
			if i = space(text, i); text[i] == ',' {
				i = space(text, i+1)
			}
			if text[i] == '}' || text[i] == ']' {
				return
			}
			var m Member
			if object {
				end := value(text, i)
				m.Key = text[i:end]
				i = space(text, space(text, end)+1) // the colon
			}
			m.From, m.To = i, value(text, i)
			if i = m.To; !yield(m) {
				return
			}
		}
	}
}

// Close returns the place of the bracket that closes a value that is an object or array, and whether there is nothing in it.
func Close(text []byte, m Member) (end int, empty bool) {
	end = m.To - 1
	return end, space(text, m.From+1) == end
}

// space returns the place of the first byte from i on that is not space.
func space(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}

// value returns the place behind the value at i.
func value(text []byte, i int) int {
	o := Objects{text: text}
	for depth := 0; ; i++ {
		switch text[i] {
		case '"':
			i = o.quote(i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ' ', '\t', '\r', '\n', ',', ':':
			continue
		default:
			for i++; i < len(text) && !ends(text[i]); i++ {
			}
			i--
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// ends reports whether a byte ends a number or a name.
func ends(b byte) bool { return b <= ' ' || b == ',' || b == '}' || b == ']' }
