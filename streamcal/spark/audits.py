"""Compare the labels that a checkpoint of a stream records as learned with those expected: each label once."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamcal.spark import frames
from streamcal.spark.streams import STATE, KeyState

#: Whole numbers of up to 17 characters with decimals that are 0: a `LabelJoin` has such an id without the decimals.
WITH_DECIMALS = r"^(0|[1-9][0-9]{0,16}|-[1-9][0-9]{0,15})\.0+\z"
#: Columns of `audit` beside the key.
AUDITED = tuple(name for name in KeyState._fields if name != "timer")


def audit(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return what each key of `calibrate_stream` has learned, from the last completed batch.

    Parameters
    ----------
    spark : SparkSession
        Of Spark 4.1 or later.
    checkpoint : str
        The `checkpointLocation` of the query.

    Returns
    -------
    DataFrame
        A row a key: `key`; `state`, which `LabelJoin.from_bytes` reads; `waiting`, the number of labels to be learned;
        and of those that were, in this stream and not before it, `learned`, `ids` and `hash`, and of the positive ones
        `positives`, `positive_ids` and `positive_hash` (`checksums` has the same of a table).

    Notes
    -----
    Each label was learned once where these are the sums of `checksums` over the impressions, and nothing waits. Those
    refused or given up, which `LabelJoin.tally` counts, and events that came after the watermark are in no sum. A label
    is positive here if it was when it was learned: clicks that corrected it within `late` are not counted. The stream
    may run meanwhile.
    """
    read = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", STATE).load()
    return read.select(F.col("key.key").alias("key"), *(F.col(f"value.{name}").alias(name) for name in AUDITED))


def checksums(df: DataFrame, *, key: str, id: str) -> DataFrame:
    """Count the ids of each key of a table as `audit` counts those learned.

    Parameters
    ----------
    df : DataFrame
        Impressions, each once; or those of them that were clicked, for the positive labels.
    key, id : str
        Columns, as in `calibrate_stream`.

    Returns
    -------
    DataFrame
        Columns `key`; `learned`, the number of rows; `ids`, the sum of the CRC-32 of the ids as text, `7.0` as `7`;
        and `hash`, the exclusive or of the first 8 bytes of their MD5.

    Raises
    ------
    InputError
        For a column that is not there, or of another type.

    Examples
    --------
    ::

        wanted = streamcal.spark.checksums(impressions, key="campaign", id="id")
        learned = streamcal.spark.audit(spark, "checkpoint").select("key", "learned", "ids", "hash")
        assert wanted.exceptAll(learned).isEmpty() and learned.exceptAll(wanted).isEmpty()
    """
    frames.kind(df, id)
    text = F.regexp_replace(frames.quoted(id).cast("string"), WITH_DECIMALS, "$1")
    hashed = F.conv(F.substring(F.md5(text), 1, 16), 16, -10).cast("long")
    rows = df.select(frames.column(df, "key", key).alias("key"), F.crc32(text).alias("check"), hashed.alias("hashed"))
    sums = F.count("*").alias("learned"), F.sum("check").alias("ids"), F.bit_xor("hashed").alias("hash")
    return rows.groupBy("key").agg(*sums)
