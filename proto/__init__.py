"""The wire contract: protobuf sources in headway/, generated code in gen/."""
