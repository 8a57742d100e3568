// consumer HOST:PORT GROUP TOPIC: be a member of a consumer group: print the records of the partitions that are given to it, and acknowledge them.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	ottla "ottla.example/grpc/ottla/v1"
)

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	stream, err := ottla.NewLogClient(conn).Consume(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	stream.Send(&ottla.ConsumeRequest{Join: &ottla.ConsumeJoin{Group: os.Args[2], Topics: os.Args[3:4], Start: ottla.Start_START_EARLIEST}})
	for {
		message, err := stream.Recv()
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range message.Records {
			fmt.Println(message.Position.Partition, record.Offset, string(record.Value))
		}
		if message.Position != nil {
			stream.Send(&ottla.ConsumeRequest{Acknowledge: []*ottla.ConsumePosition{message.Position}})
		}
	}
}
