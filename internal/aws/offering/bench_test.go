package offering

import (
	"runtime"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

func sevenHundred(tb testing.TB) []ec2types.InstanceTypeInfo {
	tb.Helper()
	return allTypes(tb)[:700]
}

// BenchmarkTypes: one call per pool and planning pass, so the response that did not change must be free.
func BenchmarkTypes(b *testing.B) {
	c := class(awsv1.FamilyAL2023, withKubelet(`{"maxPods":110,"kubeReserved":{"cpu":"100m","memory":"300Mi"}}`))
	b.Run("unchanged", func(b *testing.B) {
		l := newFixture(b, nil, sevenHundred(b)...)
		l.types(b, c)
		b.ReportAllocs()
		for b.Loop() {
			l.types(b, c)
		}
	})
	b.Run("one offering out", func(b *testing.B) {
		l := newFixture(b, nil, sevenHundred(b)...)
		l.types(b, c)
		b.ReportAllocs()
		for b.Loop() {
			l.unavailable.Mark("spot", "m5.large", "us-east-1a", Group{}, "bench")
			l.types(b, c)
		}
	})
	b.Run("all prices new", func(b *testing.B) {
		l := newFixture(b, nil, sevenHundred(b)...)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			l.prices.version++
			l.prices.onDemand = map[string]float64{}
			for _, info := range l.ec2.infos {
				l.prices.onDemand[string(info.InstanceType)] = float64(i + 1)
			}
			l.types(b, c)
		}
	})
	b.Run("new class", func(b *testing.B) {
		l := newFixture(b, nil, sevenHundred(b)...)
		l.types(b, c)
		b.ReportAllocs()
		for b.Loop() {
			clear(l.shapes)
			l.types(b, c)
		}
	})
	b.Run("new catalogue", func(b *testing.B) {
		l := newFixture(b, nil, sevenHundred(b)...)
		b.ReportAllocs()
		for b.Loop() {
			clear(l.shapes)
			clear(l.region.labels)
			l.types(b, c)
		}
	})
}

// BenchmarkMemory prints what a catalogue and its classes keep.
func BenchmarkMemory(b *testing.B) {
	infos := sevenHundred(b)
	for b.Loop() {
		before := heap()
		l := newFixture(b, nil, infos...)
		l.types(b, class(awsv1.FamilyAL2023))
		first := heap()
		l.types(b, class(awsv1.FamilyBottlerocket))
		second := heap()
		b.ReportMetric(float64(first-before)/1e6, "MB-first-class")
		b.ReportMetric(float64(second-first)/1e6, "MB-further-class")
		runtime.KeepAlive(l)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
