module github.com/lca-stream/lca-stream/.ci/sbom

go 1.26

require github.com/CycloneDX/cyclonedx-go v0.12.0
