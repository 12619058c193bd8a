// Command sbom writes what a built Go program consists of, as its own build information says it, as a CycloneDX
// document:
//
//	sbom BINARY LICENCES.CSV >sbom.json
//
// The second file has a line for each module, "path,version,licence", the licence as SPDX names it.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY LICENCES.CSV >sbom.json")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(binary, licences string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	licence, err := read(licences)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: filepath.Base(binary), BOMRef: info.Path,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	std := cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		BOMRef: "pkg:golang/std@" + info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion,
		Licenses: spdx("BSD-3-Clause"),
	}
	parts, refs := []cdx.Component{std}, []string{std.BOMRef}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		name, ok := licence[m.Path+"@"+m.Version]
		if !ok {
			return fmt.Errorf("%s has no line for %s %s, which is linked into %s", licences, m.Path, m.Version, binary)
		}
		part := library(m, name)
		parts, refs = append(parts, part), append(refs, part.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func library(m *debug.Module, licence string) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, BOMRef: purl, PackageURL: purl, Licenses: spdx(licence),
	}
}

func spdx(id string) *cdx.Licenses {
	return &cdx.Licenses{{License: &cdx.License{ID: id}}}
}

func read(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	licence := map[string]string{}
	for _, line := range lines {
		if len(line) != 3 {
			return nil, fmt.Errorf("%s: want path,version,licence, have %q", path, line)
		}
		licence[line[0]+"@"+line[1]] = line[2]
	}
	return licence, nil
}
