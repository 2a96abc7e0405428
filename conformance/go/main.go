// franz-go, controlled by lines of JSON: a request per line of stdin, a response per line of stdout, in turn.  The
// requests are those of ../java/ClientDriver.java.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type place struct {
	topic     string
	partition int32
}

// placed is [topic, partition, number] on the wire.
type placed struct {
	place
	number int64
}

func (p *placed) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.topic, &p.partition, &p.number})
}

type header struct {
	name string
	data []byte
}

func (h *header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.name, &h.data})
}

type record struct {
	Key, Value []byte
	Partition  *int32
	Timestamp  *int64
	Headers    []header
}

type request struct {
	Do         string
	On         *int
	Options    options
	Records    []record
	Offsets    []placed
	Timestamps []placed
	Topics     []string
	Topic      string
	Partition  int32
	Ms         int64
	Name       string
	Key, Value string
	Partitions int32
	Replicas   int16
	Total      int
	Before     int64
	Configs    map[string]*string
	Group      string
	// Each acknowledgement is [topic, partition, offset, type].
	Acknowledgements []acknowledgement
	// Each goal is [partition, brokers], with null instead of brokers to cancel what is under way.
	Goals           []goal
	MayChangeFactor bool `json:"may_change_factor"`
}

type goal struct {
	partition int32
	brokers   []int32
}

func (g *goal) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&g.partition, &g.brokers})
}

type acknowledgement struct {
	placed
	kind string
}

func (a *acknowledgement) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&a.topic, &a.partition, &a.number, &a.kind})
}

type options struct {
	Acks             string
	Compression      string
	Idempotent       bool
	RequestBytesMax  int32  `json:"request_bytes_max"`
	RequestTimeoutMs int64  `json:"request_timeout_ms"`
	Group            string `json:"group"`
	Reset            string
	InstanceID       string `json:"instance_id"`
	FetchBytesMax    int32  `json:"fetch_bytes_max"`
	SessionMs        int64  `json:"session_ms"`
}

type driver struct {
	bootstrap string
	patience  time.Duration
	raw       *kgo.Client
	admin     *kadm.Client
	producers []*kgo.Client
	consumers []*consumer
	sharers   []*sharer
}

func main() {
	patienceMs, err := strconv.Atoi(os.Args[2])
	must(err)
	d := &driver{bootstrap: os.Args[1], patience: time.Duration(patienceMs) * time.Millisecond}
	d.raw = d.client()
	d.admin = kadm.NewClient(d.raw)
	requests := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			os.Exit(0) // the parent has exited: its consumers must not leave their groups
		}
		answer := map[string]any{}
		if value, err := d.answer(line); err != nil {
			answer["code"], answer["error"] = codeOf(err), err.Error()
		} else {
			answer["answer"] = value
		}
		text, err := json.Marshal(answer)
		must(err)
		fmt.Println(string(text))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func codeOf(err error) int16 {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return -1
}

func (d *driver) client(more ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(d.bootstrap, ",")...), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(50 * time.Millisecond),
	}, more...)...)
	must(err)
	return client
}

func (d *driver) answer(line []byte) (any, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.patience)
	defer cancel()
	switch r.Do {
	case "producer":
		d.producers = append(d.producers, d.client(producing(r.Options)...))
		return len(d.producers) - 1, nil
	case "consumer":
		d.consumers = append(d.consumers, &consumer{driver: d, options: r.Options, held: map[place]bool{}})
		return len(d.consumers) - 1, nil
	case "share consumer":
		d.sharers = append(d.sharers, d.sharer(r.Group, r.Topic))
		return len(d.sharers) - 1, nil
	case "share":
		if r.Acknowledgements != nil {
			return nil, d.sharers[*r.On].acknowledge(ctx, r.Acknowledgements)
		}
		return d.sharers[*r.On].poll(r.Ms)
	case "close share consumer":
		d.sharers[*r.On].client.Close()
		return nil, nil
	case "send":
		return send(ctx, d.producers[*r.On], r)
	case "close producer":
		d.producers[*r.On].Close()
		return nil, nil
	}
	if r.On != nil {
		return d.consumers[*r.On].answer(ctx, r)
	}
	return d.administrate(ctx, r)
}

// ---- producer

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func producing(o options) []kgo.Opt {
	timeout := time.Duration(o.RequestTimeoutMs) * time.Millisecond
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[o.Compression]), kgo.ProducerBatchMaxBytes(o.RequestBytesMax),
		kgo.ProducerLinger(time.Millisecond), kgo.ProduceRequestTimeout(timeout), kgo.RequestTimeoutOverhead(timeout),
		kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
	}
	if o.Acks == "1" {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if !o.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	return opts
}

// partitioner uses the partition of the record, or the default partitioner if the record has none (−1).
type partitioner struct{ kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return p.TopicPartitioner.Partition(r, n)
}

func send(ctx context.Context, client *kgo.Client, r request) (any, error) {
	var records []*kgo.Record
	for _, each := range r.Records {
		out := &kgo.Record{Topic: r.Topic, Key: each.Key, Value: each.Value, Partition: -1}
		if each.Partition != nil {
			out.Partition = *each.Partition
		}
		if each.Timestamp != nil {
			out.Timestamp = time.UnixMilli(*each.Timestamp)
		}
		for _, h := range each.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.name, Value: h.data})
		}
		records = append(records, out)
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	places := [][2]int64{}
	for _, each := range records {
		places = append(places, [2]int64{int64(each.Partition), each.Offset})
	}
	return places, nil
}

// ---- consumer

// consumer has no client until its topics are known: franz-go needs them when it creates a client.
type consumer struct {
	driver  *driver
	options options
	client  *kgo.Client
	grouped bool
	lock    sync.Mutex
	held    map[place]bool
}

func (c *consumer) open(more ...kgo.Opt) {
	o := c.options
	reset := map[string]kgo.Offset{
		"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd(), "none": kgo.NoResetOffset(),
	}[o.Reset]
	c.client = c.driver.client(append([]kgo.Opt{
		kgo.ConsumeResetOffset(reset), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.FetchMaxPartitionBytes(o.FetchBytesMax),
	}, more...)...)
}

func (c *consumer) subscribe(topics []string) {
	c.grouped = true
	opts := []kgo.Opt{
		kgo.ConsumerGroup(c.options.Group), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(time.Duration(c.options.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(c.noting(true)), kgo.OnPartitionsRevoked(c.noting(false)),
		kgo.OnPartitionsLost(c.noting(false)),
	}
	if c.options.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(c.options.InstanceID))
	}
	c.open(opts...)
}

func (c *consumer) noting(held bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		c.lock.Lock()
		defer c.lock.Unlock()
		for topic, partitions := range topics {
			for _, partition := range partitions {
				if held {
					c.held[place{topic, partition}] = true
				} else {
					delete(c.held, place{topic, partition})
				}
			}
		}
	}
}

func (c *consumer) answer(ctx context.Context, r request) (any, error) {
	admin := c.driver.admin
	switch r.Do {
	case "subscribe":
		c.subscribe(r.Topics)
		return nil, nil
	case "assign":
		starts := map[string]map[int32]kgo.Offset{}
		for _, each := range r.Offsets {
			if starts[each.topic] == nil {
				starts[each.topic] = map[int32]kgo.Offset{}
			}
			starts[each.topic][each.partition] = kgo.NewOffset().At(each.number)
		}
		c.open(kgo.ConsumePartitions(starts))
		return nil, nil
	case "assignment":
		c.lock.Lock()
		defer c.lock.Unlock()
		rows := [][]any{}
		for each := range c.held {
			rows = append(rows, []any{each.topic, each.partition})
		}
		return rows, nil
	case "poll":
		return c.poll(r.Ms)
	case "seek":
		offsets := map[string]map[int32]kgo.EpochOffset{}
		for _, each := range r.Offsets {
			offsets[each.topic] = map[int32]kgo.EpochOffset{each.partition: {Epoch: -1, Offset: each.number}}
		}
		c.client.SetOffsets(offsets)
		return nil, nil
	case "commit":
		return nil, c.commit(ctx, r.Offsets)
	case "committed":
		offsets, err := admin.FetchOffsetsForTopics(ctx, c.options.Group, r.Topic)
		if err != nil {
			return nil, err
		}
		found, ok := offsets.Lookup(r.Topic, r.Partition)
		if !ok || found.At < 0 {
			return nil, found.Err
		}
		return found.At, found.Err
	case "offsets for times":
		rows := [][]any{}
		for _, each := range r.Timestamps {
			listed, err := admin.ListOffsetsAfterMilli(ctx, each.number, each.topic)
			found, err := at(listed, err, each.place)
			if err != nil {
				return nil, err
			}
			row := []any{each.topic, each.partition, nil}
			if found.Timestamp >= 0 { // otherwise it is the end offset
				row[2] = found.Offset
			}
			rows = append(rows, row)
		}
		return rows, nil
	case "bounds":
		starts, err := admin.ListStartOffsets(ctx, r.Topic)
		start, err := at(starts, err, place{r.Topic, r.Partition})
		if err != nil {
			return nil, err
		}
		ends, err := admin.ListEndOffsets(ctx, r.Topic)
		end, err := at(ends, err, place{r.Topic, r.Partition})
		return []int64{start.Offset, end.Offset}, err
	case "close consumer":
		if c.client != nil {
			c.client.Close()
		}
		return nil, nil
	}
	return nil, fmt.Errorf("nothing that a consumer does: %s", r.Do)
}

func at(listed kadm.ListedOffsets, err error, where place) (kadm.ListedOffset, error) {
	found, ok := listed.Lookup(where.topic, where.partition)
	if err == nil && found.Err != nil {
		err = found.Err
	}
	if err == nil && !ok {
		err = kerr.UnknownTopicOrPartition
	}
	return found, err
}

func (c *consumer) poll(ms int64) (any, error) {
	rows := [][]any{}
	if c.client == nil { // no topic has been chosen yet
		return rows, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
	defer cancel()
	fetches := c.client.PollFetches(ctx)
	for _, each := range fetches.Errors() {
		if !errors.Is(each.Err, context.DeadlineExceeded) {
			return nil, each.Err
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		headers := [][]any{}
		for _, h := range r.Headers {
			headers = append(headers, []any{h.Key, h.Value})
		}
		rows = append(rows, []any{r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, headers})
	})
	return rows, nil
}

func (c *consumer) commit(ctx context.Context, wanted []placed) error {
	if !c.grouped {
		var offsets kadm.Offsets
		for _, each := range wanted {
			offsets.AddOffset(each.topic, each.partition, each.number, -1)
		}
		answers, err := c.driver.admin.CommitOffsets(ctx, c.options.Group, offsets)
		if err != nil {
			return err
		}
		return answers.Error()
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, each := range wanted {
		if offsets[each.topic] == nil {
			offsets[each.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[each.topic][each.partition] = kgo.EpochOffset{Epoch: -1, Offset: each.number}
	}
	var problem error
	c.client.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			problem = err
			if err != nil {
				return
			}
			for _, topic := range response.Topics {
				for _, partition := range topic.Partitions {
					if partition.ErrorCode != 0 {
						problem = kerr.ErrorForCode(partition.ErrorCode)
					}
				}
			}
		})
	return problem
}

// ---- share consumer

// sharer keeps the records of the last poll until they are acknowledged.
type sharer struct {
	client   *kgo.Client
	held     map[placed]*kgo.Record
	lock     sync.Mutex
	problems []error // of acknowledgements since the last look
}

var acknowledgementTypes = map[string]kgo.AckStatus{
	"ACCEPT": kgo.AckAccept, "RELEASE": kgo.AckRelease, "REJECT": kgo.AckReject,
}

func (d *driver) sharer(group, topic string) *sharer {
	s := &sharer{held: map[placed]*kgo.Record{}}
	s.client = d.client(
		kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			s.lock.Lock()
			defer s.lock.Unlock()
			for _, each := range results {
				if each.Err != nil {
					s.problems = append(s.problems, each.Err)
				}
			}
		}))
	return s
}

func (s *sharer) poll(ms int64) (any, error) {
	rows := [][]any{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
	defer cancel()
	fetches := s.client.PollFetches(ctx)
	for _, each := range fetches.Errors() {
		if !errors.Is(each.Err, context.DeadlineExceeded) && !kerr.IsRetriable(each.Err) {
			return nil, each.Err
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		s.held[placed{place{r.Topic, r.Partition}, r.Offset}] = r
		rows = append(rows, []any{r.Topic, r.Partition, r.Offset, r.Value, r.DeliveryCount()})
	})
	return rows, nil
}

// acknowledge waits for the broker's answers, and returns the first error.
func (s *sharer) acknowledge(ctx context.Context, acknowledgements []acknowledgement) error {
	for _, each := range acknowledgements {
		s.held[each.placed].Ack(acknowledgementTypes[each.kind])
		delete(s.held, each.placed)
	}
	if err := s.client.FlushAcks(ctx); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	problems := s.problems
	s.problems = nil
	if len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// ---- admin

func (d *driver) administrate(ctx context.Context, r request) (any, error) {
	switch r.Do {
	case "create topic":
		answer, err := d.admin.CreateTopic(ctx, r.Partitions, r.Replicas, r.Configs, r.Name)
		return nil, first(answer.Err, err)
	case "delete topic":
		answer, err := d.admin.DeleteTopic(ctx, r.Name)
		return nil, first(answer.Err, err)
	case "create partitions":
		answers, err := d.admin.UpdatePartitions(ctx, r.Total, r.Name)
		return nil, first(answers[r.Name].Err, err)
	case "topics":
		counts := map[string]int{}
		// With authorized operations, kadm asks the broker; otherwise it answers from metadata that may be 50 ms old.
		topics, err := d.admin.ListTopicsWithInternal(kadm.WithAuthorizedOps(ctx))
		for name, topic := range topics {
			if topic.Err == nil {
				counts[name] = len(topic.Partitions)
			}
		}
		return counts, err
	case "topic configs":
		return configs(d.admin.DescribeTopicConfigs(ctx, r.Name))
	case "broker configs":
		brokers, err := d.admin.ListBrokers(ctx)
		if err != nil {
			return nil, err
		}
		return configs(d.admin.DescribeBrokerConfigs(ctx, brokers.NodeIDs()[0]))
	case "alter topic config":
		change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: r.Key, Value: &r.Value}}
		answers, err := d.admin.AlterTopicConfigs(ctx, change, r.Name)
		if err != nil {
			return nil, err
		}
		return nil, answers[0].Err
	case "alter group config":
		return nil, d.alterGroupConfig(ctx, r)
	case "delete records":
		var offsets kadm.Offsets
		offsets.AddOffset(r.Topic, r.Partition, r.Before, -1)
		answers, err := d.admin.DeleteRecords(ctx, offsets)
		return nil, first(answers[r.Topic][r.Partition].Err, err)
	case "groups":
		groups, err := d.admin.ListGroups(ctx)
		return groups.Groups(), err
	case "describe group":
		groups, err := d.admin.DescribeGroups(ctx, r.Name)
		group := groups[r.Name]
		return []any{group.State, len(group.Members)}, first(group.Err, err)
	case "delete group":
		groups, err := d.admin.DeleteGroups(ctx, r.Name)
		return nil, first(groups[r.Name].Err, err)
	case "replicas":
		topics, err := d.admin.ListTopics(kadm.WithAuthorizedOps(ctx), r.Name)
		replicas := [][]int32{}
		for _, partition := range topics[r.Name].Partitions.Sorted() {
			replicas = append(replicas, partition.Replicas)
		}
		return replicas, first(topics[r.Name].Err, err)
	case "reassign":
		return nil, d.reassign(ctx, r)
	case "reassigning":
		return d.reassigning(ctx, r.Name)
	}
	return nil, fmt.Errorf("nothing that an administrator does: %s", r.Do)
}

// reassign returns the first error, with the broker's message.
func (d *driver) reassign(ctx context.Context, r request) error {
	if !r.MayChangeFactor {
		ctx = kadm.ForbidAlterRf(ctx)
	}
	var goals kadm.AlterPartitionAssignmentsReq
	for _, each := range r.Goals {
		goals.Assign(r.Name, each.partition, each.brokers)
	}
	answers, err := d.admin.AlterPartitionAssignments(ctx, goals)
	if err != nil {
		return err
	}
	for _, answer := range answers.Sorted() {
		if answer.Err != nil {
			return fmt.Errorf("%w: %s", answer.Err, answer.ErrMessage)
		}
	}
	return nil
}

// reassigning asks about all partitions of a topic, because kadm cannot ask about all topics.
func (d *driver) reassigning(ctx context.Context, topic string) (any, error) {
	topics, err := d.admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	moves, err := d.admin.ListPartitionReassignments(ctx, topics.TopicsSet())
	rows := [][]any{}
	for _, each := range moves.Sorted() {
		rows = append(rows, []any{each.Topic, each.Partition, each.Replicas, each.AddingReplicas, each.RemovingReplicas})
	}
	return rows, err
}

// alterGroupConfig uses a raw request, because kadm alters configurations of topics and brokers only.
func (d *driver) alterGroupConfig(ctx context.Context, r request) error {
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Op, config.Value = r.Key, kmsg.IncrementalAlterConfigOpSet, &r.Value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, r.Name
	resource.Configs = append(resource.Configs, config)
	wanted := kmsg.NewPtrIncrementalAlterConfigsRequest()
	wanted.Resources = append(wanted.Resources, resource)
	answer, err := wanted.RequestWith(ctx, d.raw)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Resources[0].ErrorCode)
}

// first returns the error of the response if there is one, otherwise that of the request.
func first(told, err error) error {
	if told != nil {
		return told
	}
	return err
}

func configs(described kadm.ResourceConfigs, err error) (any, error) {
	values := map[string]string{}
	if err != nil {
		return nil, err
	}
	for _, resource := range described {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, config := range resource.Configs {
			values[config.Key] = config.MaybeValue()
		}
	}
	return values, nil
}
