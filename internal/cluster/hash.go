package cluster

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// Hash is a number that hardly any two pods of a cluster share.
func (k PodKey) Hash() uint32 {
	h := fnv.New32a()
	h.Write([]byte(k.String()))
	return h.Sum32()
}

// HashPods writes down which pods something is for, in few characters: a process that comes later
// recognizes them, and no user has to read their names.
func HashPods(pods []PodKey) string {
	hashes := make([]uint32, 0, len(pods))
	for _, pod := range pods {
		hashes = append(hashes, pod.Hash())
	}
	slices.Sort(hashes)
	var bytes []byte
	for _, hash := range slices.Compact(hashes) {
		bytes = binary.BigEndian.AppendUint32(bytes, hash)
	}
	return base64.RawStdEncoding.EncodeToString(bytes)
}

// ReadHashes reads what HashPods wrote. Text of anybody else is nothing.
func ReadHashes(text string) []uint32 {
	bytes, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(bytes)%4 != 0 {
		return nil
	}
	var hashes []uint32
	for part := range slices.Chunk(bytes, 4) {
		hashes = append(hashes, binary.BigEndian.Uint32(part))
	}
	return hashes
}
