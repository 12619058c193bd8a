//go:build !unix

package demo

import "time"

// processor is unknown here.
func processor() time.Duration { return 0 }
