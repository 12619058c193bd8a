//go:build unix

package kafkatest

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

//go:embed poms/*.xml
var poms embed.FS

// copyJars is the Maven goal that fetches what a pom names and all it needs.
const copyJars = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// Jars returns a directory with the jars of a pom, which is named after what it fetches. It is made once, under the user's
// cache directory, and shared by all tests of all checkouts:
//
//	$XDG_CACHE_HOME/lca-stream/kafka/kafka-4.1.0/jars/*.jar
func Jars(t testing.TB, pomName string) string {
	t.Helper()
	home := testtools.CacheDir(t, "kafka", pomName)
	defer testtools.Lock(t, home)()
	dir := filepath.Join(home, "jars")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	mvn := testtools.Tool(t, "mvn", "to fetch Kafka and a schema registry from Maven Central, once", "apt-get install maven", "brew install maven")
	pom, err := poms.ReadFile("poms/" + pomName + ".xml")
	if err != nil {
		t.Fatalf("kafkatest: no pom for %s: %v", pomName, err)
	}
	// Made under another name: an interrupted download must not look like a whole one.
	part, err := os.MkdirTemp(home, "part-")
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	pomFile := filepath.Join(part, "pom.xml")
	if err := os.WriteFile(pomFile, pom, 0o644); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Logf("kafkatest: fetching the jars of %s into %s", pomName, dir)
	cmd := exec.Command(mvn, "-B", "-q", "-f", pomFile, copyJars,
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(part, "jars"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kafkatest: %s: %v\n%s\nIs Maven Central reachable? A mirror is set in ~/.m2/settings.xml.", cmd, err, out)
	}
	if err := os.Rename(filepath.Join(part, "jars"), dir); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return dir
}
