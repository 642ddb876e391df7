//go:build pin

package main

// The import keeps the requirement in go.mod; the data is read as a file and never linked.
import _ "github.com/LeanerCloud/ec2-instances-info"
