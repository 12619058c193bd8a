//go:build unix

package testtools

import (
	_ "embed"
	"path/filepath"
	"testing"
)

//go:embed requirements-spark.txt
var sparkRequirements []byte

// icebergRuntime reads and writes Iceberg tables in Spark 4.1.
const icebergRuntime = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"

// SparkPython is Python with Spark, half a gigabyte. No test of `make test` needs it.
func SparkPython(t testing.TB) string {
	t.Helper()
	Tool(t, "java", "to run Spark", "apt-get install default-jre-headless", "brew install openjdk")
	return environment(t, sparkRequirements)
}

// IcebergJar returns the jar that Spark reads Iceberg tables with.
func IcebergJar(t testing.TB) string {
	t.Helper()
	home := CacheDir(t, "iceberg")
	defer Lock(t, home)()
	jars := func() []string {
		found, _ := filepath.Glob(filepath.Join(home, "iceberg-*.jar")) // the pattern is right
		return found
	}
	if len(jars()) == 0 {
		mvn := Tool(t, "mvn", "to fetch Iceberg from Maven Central, once", "apt-get install maven", "brew install maven")
		run(t, "Is Maven Central reachable? A mirror is set in ~/.m2/settings.xml.", mvn, "-B", "-q", "dependency:get", "-Dtransitive=false", "-Dartifact="+icebergRuntime)
		run(t, "It was fetched just before.", mvn, "-B", "-q", "dependency:copy", "-Dartifact="+icebergRuntime, "-DoutputDirectory="+home)
	}
	found := jars()
	if len(found) != 1 {
		t.Fatalf("%v: want one jar, %s", found, icebergRuntime)
	}
	return found[0]
}

// Spark returns the directory of Spark within SparkPython.
func Spark(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(SparkPython(t)), "../lib/python3*/site-packages/pyspark")) // the pattern is right
	if len(found) != 1 {
		t.Fatalf("%v: want one directory of Spark", found)
	}
	return found[0]
}
