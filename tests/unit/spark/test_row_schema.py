"""The columns of the source and their selection by a user's schema."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidemill.columnar import waiting_columns
from tidemill.columnar.letter_columns import schema as arrow_schema
from tidemill.spark import row_schema


@pytest.mark.parametrize("has_headers", [False, True])
@pytest.mark.parametrize("has_letters", [False, True])
def test_spark_and_the_decoder_agree_on_every_type(has_headers, has_letters):
    """
    Spark and the decoder agree on every type, because Spark refuses a batch whose schema does not match exactly.
    """
    options = {"has_headers": has_headers, "has_letters": has_letters}
    spark = to_arrow_schema(row_schema.full(**options), timezone="UTC")

    assert arrow_schema(None, **options) == spark


@pytest.mark.parametrize("has_headers", [False, True])
def test_spark_and_arrow_agree_on_the_types_of_what_waits(has_headers):
    spark = to_arrow_schema(row_schema.full(has_headers=has_headers, is_waiting=True), timezone="UTC")

    assert waiting_columns.schema(None, has_headers=has_headers) == spark


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_a_schema_selects_columns():
    """
    The selected columns are in the order of the schema; case does not matter.
    """
    wanted = schema(OFFSET=LongType(), value=BinaryType(), timestamptype=IntegerType())

    assert ("offset", "value", "timestampType") == row_schema.chosen_columns(wanted, has_headers=False)


def test_records_of_a_share_group_have_two_more_columns():
    """
    Other records have no such columns, whatever the schema says.
    """
    full = row_schema.full(has_headers=False, is_share=True)

    assert ["deliveryCount", "receipt"] == full.names[-2:]
    assert ("receipt",) == row_schema.chosen_columns(schema(RECEIPT=StringType()), has_headers=False, is_share=True)
    with pytest.raises(ValueError, match="column 'receipt' does not exist in the Tidemill source"):
        row_schema.chosen_columns(schema(receipt=StringType()), has_headers=False)


def test_records_that_wait_have_other_columns():
    """
    They have no offset before they are released; other records have no arrival number.
    """
    full = row_schema.full(has_headers=False, is_waiting=True)
    assert ["key", "value", "topic", "partition", "timestamp", "arrival", "deliver_at", "timer_id"] == full.names
    wanted = schema(DELIVER_AT=TimestampType(), key=BinaryType())
    assert ("deliver_at", "key") == row_schema.chosen_columns(wanted, has_headers=False, is_waiting=True)

    with pytest.raises(ValueError, match="column 'Deliver_At' requires option records=waiting"):
        row_schema.chosen_columns(schema(Deliver_At=TimestampType()), has_headers=False)
    for name, sentence in [
        ("OFFSET", "column 'offset' exists only when a record is released: with records=waiting, use key,"),
        ("cause", "column 'cause' is unknown with records=waiting; the columns are key, value, topic"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            row_schema.chosen_columns(schema(**{name: LongType()}), has_headers=False, is_waiting=True)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (schema(offsets=LongType()), "column 'offsets' does not exist"),
        (schema(offset=IntegerType()), "column 'offset' has type bigint, not int: cast it after reading"),
        (schema(headers=row_schema.full(has_headers=True)["headers"].dataType), "requires option includeHeaders=true"),
        (schema(offset=LongType(), OFFSET=LongType()), "has a column twice"),
        (schema(Attempts=IntegerType()), "column 'attempts' requires option records=dead-letters"),
    ],
)
def test_a_schema_with_other_columns_is_refused(wanted, sentence):
    """
    A schema with other columns is refused with an error before any task starts.
    """
    with pytest.raises(ValueError, match=sentence):
        row_schema.chosen_columns(wanted, has_headers=False)
