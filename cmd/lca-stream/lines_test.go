package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// untilLine reads until a line holds want, and returns what it read.
func untilLine(t *testing.T, r io.Reader, want string) string {
	t.Helper()
	var read strings.Builder
	for lines := bufio.NewReader(oneByte{r}); ; {
		line, err := lines.ReadString('\n')
		read.WriteString(line)
		if strings.Contains(line, want) {
			return read.String()
		}
		if err != nil {
			t.Fatalf("no line with %q: %v: %s", want, err, read.String())
		}
	}
}

// oneByte keeps a bufio.Reader from taking bytes beyond the line.
type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.Reader.Read(p[:1]) }
