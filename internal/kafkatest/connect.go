//go:build unix

package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// connect names the pom of Kafka Connect.
const connect = "kafka-connect-4.1.0"

// ConnectJars returns the directory with the jars of Kafka Connect.
func ConnectJars(t testing.TB) string { return Jars(t, connect) }

// ConnectScript writes connect-standalone.sh, under the name that it has in Kafka's distribution, into a directory and
// returns its path. It takes the file of a worker and those of connectors.
func ConnectScript(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "connect-standalone.sh")
	text := fmt.Sprintf(`#!/bin/sh
exec '%s' -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  -cp '%s/*' org.apache.kafka.connect.cli.ConnectStandalone "$@"
`, java(t), ConnectJars(t))
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return path
}
