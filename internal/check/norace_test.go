//go:build !race

package check_test

const memoryFactor = 1
