// Package plural formats numbers of things: plural.Count(1, "message") is "1 message", and for 2 "2 messages".
package plural

import (
	"fmt"
	"strings"
)

// Are is Count with a verb: "1 row is", "2 rows are".
func Are[N int | int32 | int64 | uint64](n N, thing string) string {
	if n == 1 {
		return Count(n, thing) + " is"
	}
	return Count(n, thing) + " are"
}

// Count returns a number of things whose plural is regular.
func Count[N int | int32 | int64 | uint64](n N, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
