// Command peer runs pglogrepl behind the line protocol of benches/peers: peer parse|parse-v2.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
)

// counts is what a capture holds.
type counts struct {
	Messages   map[string]int `json:"messages"`
	Cells      int            `json:"cells"`
	Nulls      int            `json:"nulls"`
	ValueBytes int            `json:"value_bytes"`
}

type parser func(data []byte, inStream bool) (pglogrepl.Message, error)

func main() {
	parse := func(data []byte, _ bool) (pglogrepl.Message, error) { return pglogrepl.Parse(data) }
	if len(os.Args) > 1 && os.Args[1] == "parse-v2" {
		parse = pglogrepl.ParseV2
	}
	var capture []byte
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		answer, err := answer(parse, &capture, lines.Text())
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func answer(parse parser, capture *[]byte, line string) (any, error) {
	word, path, _ := strings.Cut(line, " ")
	switch word {
	case "load":
		var err error
		*capture, err = os.ReadFile(path)
		return struct{}{}, err
	case "count":
		total := counts{Messages: map[string]int{}}
		err := forEach(parse, *capture, total.add)
		return total, err
	case "pass":
		start, items := time.Now(), 0
		err := forEach(parse, *capture, func(pglogrepl.Message) { items++ })
		return map[string]int64{"ns": time.Since(start).Nanoseconds(), "items": int64(items)}, err
	}
	return nil, errors.New("unknown line: load FILE, count or pass")
}

// forEach parses the payload of each CopyData message, as a driver hands it out.
func forEach(parse parser, capture []byte, each func(pglogrepl.Message)) error {
	inStream := false
	for len(capture) >= 5 {
		size := 1 + int(binary.BigEndian.Uint32(capture[1:]))
		tag, payload := capture[0], capture[5:size]
		capture = capture[size:]
		if tag != 'd' || payload[0] != pglogrepl.XLogDataByteID {
			continue
		}
		data, err := pglogrepl.ParseXLogData(payload[1:])
		if err != nil {
			return err
		}
		message, err := parse(data.WALData, inStream)
		if err != nil {
			return err
		}
		switch message.(type) {
		case *pglogrepl.StreamStartMessageV2:
			inStream = true
		case *pglogrepl.StreamStopMessageV2:
			inStream = false
		}
		each(message)
	}
	return nil
}

func (c *counts) add(message pglogrepl.Message) {
	c.Messages[string(rune(message.Type()))]++
	switch message := message.(type) {
	case *pglogrepl.InsertMessage:
		c.tuple(message.Tuple)
	case *pglogrepl.InsertMessageV2:
		c.tuple(message.Tuple)
	case *pglogrepl.UpdateMessage:
		c.tuple(message.OldTuple)
		c.tuple(message.NewTuple)
	case *pglogrepl.UpdateMessageV2:
		c.tuple(message.OldTuple)
		c.tuple(message.NewTuple)
	case *pglogrepl.DeleteMessage:
		c.tuple(message.OldTuple)
	case *pglogrepl.DeleteMessageV2:
		c.tuple(message.OldTuple)
	}
}

func (c *counts) tuple(tuple *pglogrepl.TupleData) {
	if tuple == nil {
		return
	}
	for _, column := range tuple.Columns {
		c.Cells++
		c.ValueBytes += len(column.Data)
		switch column.DataType {
		case pglogrepl.TupleDataTypeNull, pglogrepl.TupleDataTypeToast:
			c.Nulls++
		}
	}
}
