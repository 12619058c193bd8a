package logs

import "regexp"

// prefixes are the names of packages and of kafka-go's methods at the beginning of the parts of an error. They say
// where in the code it arose, which is of no use to an operator.
var prefixes = regexp.MustCompile(`(^|: |; |\n|\()(?:(?:config|embedded|format|kafkaconn|lca|minibatch|online|pipeline|sink|snapshot|source|status|topics|tracing|kafka\.\(\*\w+\)\.\w+): )+`)

// Plain takes the names of packages out of the text of an error:
//
//	source: look up topic "events": kafkaconn: metadata: connection refused
//	look up topic "events": metadata: connection refused
func Plain(text string) string { return prefixes.ReplaceAllString(text, "$1") }
